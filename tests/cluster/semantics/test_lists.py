"""Lists: selectors, pages, tables."""

import pytest

from gpuplatform.kube.kinds import CONFIG_MAP, POD
from tests.cluster.world import World, pod

pytestmark = pytest.mark.cluster
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture
def three(world: World) -> World:
    for name, labels in (("a", {"app": "x", "tier": "1"}), ("b", {"app": "x"}), ("c", {})):
        world.create(CONFIG_MAP, {"metadata": {"name": f"m-{name}", "labels": labels}})
    return world


def names(world: World, selector: str) -> str:
    found = [item["metadata"]["name"] for item in world.list(CONFIG_MAP, selector)]
    return "".join(sorted(name[2:] for name in found if name.startswith("m-")))


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        pytest.param("app=x", "ab", id="equal"),
        pytest.param("app!=x", "c", id="not equal or absent"),
        pytest.param("app=x,tier=1", "a", id="both"),
        pytest.param("tier", "a", id="has the key"),
        pytest.param("!tier", "bc", id="has not the key"),
        pytest.param("app in (x,y)", "ab", id="in"),
        pytest.param("app notin (x)", "c", id="not in"),
    ],
)
def test_label_selectors_select(three: World, selector: str, found: str) -> None:
    assert names(three, selector) == found


def test_a_bad_label_selector_is_a_bad_request(world: World) -> None:
    reply = world.http("GET", world.path(CONFIG_MAP) + "?labelSelector=a%3D%3D%3Db")

    assert (reply.status, reply.reason) == (400, "BadRequest")


def test_a_field_selector_selects_by_name(three: World) -> None:
    found = three.cluster.list(
        CONFIG_MAP, namespace=three.namespace, field_selector="metadata.name=m-b"
    )

    assert [item["metadata"]["name"] for item in found.items] == ["m-b"]


def test_a_field_selector_selects_pods_by_node(world: World) -> None:
    world.create(POD, pod("here", nodeName="gpu-node-1"))
    world.create(POD, pod("there", nodeName="gpu-node-2"))

    found = world.cluster.list(
        POD, namespace=world.namespace, field_selector="spec.nodeName=gpu-node-1"
    )

    assert [item["metadata"]["name"] for item in found.items] == ["here"]


def test_an_unknown_field_selector_is_a_bad_request(world: World) -> None:
    reply = world.http("GET", world.path(CONFIG_MAP) + "?fieldSelector=data.a%3D1")

    assert (reply.status, reply.reason) == (400, "BadRequest")
    assert "data.a" in reply.message


def test_pages_are_one_list_with_one_version(three: World) -> None:
    path = three.path(CONFIG_MAP) + "?limit=1"
    seen, versions, token = [], set(), ""

    for _ in range(5):
        page = three.http("GET", path + (f"&continue={token}" if token else "")).body
        seen += [item["metadata"]["name"] for item in page["items"]]
        versions.add(page["metadata"]["resourceVersion"])
        token = page["metadata"].get("continue", "")
        three.create(CONFIG_MAP, {"metadata": {"name": f"z-{len(seen)}"}})
        if not token:
            break

    assert [name for name in seen if name.startswith(("m-", "z-"))] == ["m-a", "m-b", "m-c"]
    assert len(versions) == 1


def test_a_page_has_the_number_of_remaining_items(three: World) -> None:
    page = three.http("GET", three.path(CONFIG_MAP) + "?limit=1").body
    everything = three.list(CONFIG_MAP)

    assert page["metadata"]["remainingItemCount"] == len(everything) - 1


def test_a_bad_continue_token_is_a_bad_request(world: World) -> None:
    reply = world.http("GET", world.path(CONFIG_MAP) + "?limit=1&continue=nonsense")

    assert (reply.status, reply.reason) == (400, "BadRequest")


def test_a_list_of_all_namespaces_has_every_object(world: World) -> None:
    world.config_map("everywhere")

    found = world.cluster.list(CONFIG_MAP, field_selector="metadata.name=everywhere")

    assert world.namespace in {item["metadata"]["namespace"] for item in found.items}


def test_an_empty_list_has_a_version(world: World) -> None:
    found = world.cluster.list(POD, namespace=world.namespace)

    assert found.items == []
    assert int(found.resource_version) > 0


def test_a_table_has_the_columns_of_kubectl(world: World) -> None:
    world.create(POD, pod("one", nodeName="gpu-node-1"))

    table = world.http("GET", world.path(POD), accept=f"{TABLE},application/json").body

    columns = [column["name"] for column in table["columnDefinitions"]]
    assert table["kind"] == "Table"
    assert columns[:5] == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert table["rows"][0]["cells"][0] == "one"
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
