"""Warm images: claims prefer nodes that have the image, and pullers keep the images on nodes."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from gpuplatform.kube.errors import ClusterForbidden, ClusterUnavailable
from gpuplatform.kube.fields import field, items
from gpuplatform.kube.kinds import DEPLOYMENT, GPU_UNIT, NODE, POD, Manifest
from gpuplatform.workloads.causes import StartupCause
from inventory.models import GpuSpec
from tests.factories.unit_rows import spec_row, stock_row, unit_row
from tests.fakes.cluster import FakeCluster
from tests.fakes.threads import at_once
from tests.fakes.unit_world import UnitWorld
from units.core.names import PREFERRED_NODE_ANNOTATION
from units.core.pullers import PULLER_LABEL
from units.models import GpuUnit, NodeImages, WarmImage
from units.nodes import compare_nodes
from units.phases import STOCK_NAMESPACE, UnitPhase, WarmImageState
from units.pullers import keep_warm_images
from units.selectors import unit_get

ONE = pytest.mark.django_db
COMMITTING = pytest.mark.django_db(transaction=True, serialized_rollback=True)

IMAGE = "example.com/a:1"
WARM = "vllm/vllm-openai:v1"
WARM_NAME = "docker.io/vllm/vllm-openai:v1"


def node_images(name: str, *images: str) -> None:
    NodeImages.objects.create(name=name, images=list(images))


def put_node(cluster: FakeCluster, name: str, images: Sequence[str] | None = ()) -> None:
    listed = None if images is None else [{"names": [one]} for one in images]
    cluster.put(NODE, {"metadata": {"name": name}, "status": {"images": listed}})


def put_pods_on(cluster: FakeCluster, node: str) -> None:
    """Bind all pods to a node."""
    for pod in cluster.list(POD).items:
        cluster.put(POD, {**pod, "spec": {"nodeName": node, "containers": []}})


def claimed(name: str) -> str:
    return GpuUnit.objects.get(claimed_by__object_name=name).node


def preferred_node(world: UnitWorld) -> str:
    """Return the node that the pod of the unit `a` prefers, or an empty string."""
    unit = world.cluster.get(GPU_UNIT, "a", namespace="runtime-instance")
    found = world.cluster.get(DEPLOYMENT, "unit-a", namespace="runtime-instance")
    affinity = field(found, "spec", "template", "spec", "affinity", "nodeAffinity")
    terms = items(affinity, "preferredDuringSchedulingIgnoredDuringExecution")
    named = [term["preference"]["matchFields"][0]["values"][0] for term in terms]
    annotation = field(unit, "metadata", "annotations", PREFERRED_NODE_ANNOTATION)
    assert named == ([annotation] if annotation else [])
    return str(annotation or "")


def pullers(cluster: FakeCluster) -> list[Manifest]:
    found = cluster.list(POD, namespace=STOCK_NAMESPACE, label_selector=PULLER_LABEL).items
    return sorted(found, key=lambda pod: str(pod["spec"]["nodeName"]))


def states() -> list[tuple[str, str, str, str]]:
    rows = WarmImage.objects.order_by("node", "image")
    return list(rows.values_list("node", "image", "state", "cause"))


@ONE
def test_a_claim_prefers_the_node_that_reports_the_image(world: UnitWorld) -> None:
    stock_row(node="n1")
    stock_row(node="n2")
    node_images("n1", "docker.io/library/busybox:1.36")
    node_images("n2", IMAGE)

    world.create("a")
    world.create("b")

    assert (claimed("a"), claimed("b")) == ("n2", "n1")
    rows = GpuUnit.objects.filter(claimed_by__isnull=False).order_by("node")
    assert [row.is_warm_start for row in rows] == [False, True]


@ONE
def test_a_claim_prefers_the_node_whose_puller_has_the_image(world: UnitWorld) -> None:
    for name, state in (("n1", WarmImageState.PULLING), ("n2", WarmImageState.PRESENT)):
        stock_row(node=name)
        WarmImage.objects.create(spec_name="g1.1", node=name, image=WARM_NAME, state=state)

    world.create("a", image=WARM)

    assert claimed("a") == "n2"


@ONE
def test_nodes_without_known_images_are_claimed_oldest_first(world: UnitWorld) -> None:
    oldest = stock_row(node="")
    stock_row(node="n1")
    node_images("n1", "docker.io/library/other:1")

    world.create("a")

    oldest.refresh_from_db()
    assert oldest.claimed_by is not None
    assert not oldest.is_warm_start


@ONE
def test_a_requested_stock_unit_is_claimed_on_any_node(world: UnitWorld) -> None:
    cold = stock_row(node="n1")
    stock_row(node="n2")
    node_images("n2", IMAGE)

    world.create("a", stockName=cold.name)

    assert claimed("a") == "n1"


@ONE
def test_a_warm_stock_unit_of_another_spec_is_not_claimed(world: UnitWorld) -> None:
    stock_row(node="n1")
    stock_row(node="n2", spec_name="other")
    node_images("n2", IMAGE)

    world.create("a")

    assert claimed("a") == "n1"


@ONE
def test_a_start_prefers_the_node_that_has_the_image(world: UnitWorld) -> None:
    unit_row(UnitPhase.STOPPED, name="a", image=IMAGE, is_suspended=True)
    stock_row(node="n1")
    stock_row(node="n2")
    node_images("n2", IMAGE)

    world.start("a")

    assert claimed("a") == "n2"


@ONE
def test_a_claim_of_deleted_stock_moves_to_a_node_that_has_the_image(world: UnitWorld) -> None:
    world.seed(3)
    first, _, third = GpuUnit.objects.order_by("id")
    operation = world.create("a")
    GpuUnit.objects.filter(pk=third.pk).update(node="n2")
    node_images("n2", IMAGE)
    world.cluster.remove(GPU_UNIT, first.name, namespace=STOCK_NAMESPACE)

    world.run(operation)

    third.refresh_from_db()
    assert third.consumed_by == unit_get("runtime-instance", "a").uid
    assert third.is_warm_start


@ONE
def test_a_unit_starts_warm_if_its_source_was_claimed_for_its_node(world: UnitWorld) -> None:
    world.seed(2)
    GpuUnit.objects.update(node="n1")
    node_images("n1", IMAGE)
    world.create("warm")
    world.create("cold", image="example.com/b:1")

    world.work()

    found = {name: unit_get("runtime-instance", name).starts_warm for name in ("warm", "cold")}
    assert found == {"warm": True, "cold": False}


@ONE
def test_only_a_warm_start_prefers_a_node(world: UnitWorld) -> None:
    world.seed(3)
    GpuUnit.objects.update(node="n1")
    node_images("n1", IMAGE)
    world.create("a")
    world.work()
    assert preferred_node(world) == "n1"
    NodeImages.objects.all().delete()

    for request in (world.stop, world.start):
        request("a")
        world.work()

    assert preferred_node(world) == ""


@COMMITTING
@pytest.mark.parametrize(("creates", "warm", "cold"), [(12, 4, 8), (12, 3, 4)])
def test_concurrent_claims_take_all_stock_and_warm_stock_once(
    world: UnitWorld, creates: int, warm: int, cold: int
) -> None:
    for number in range(warm + cold):
        stock_row(node="n2" if number < warm else "n1")
    node_images("n2", IMAGE)

    results = at_once([partial(world.ask_create, f"u{n}") for n in range(creates)])

    accepted = [one for one in results if type(one).__name__ == "Accepted"]
    rows = GpuUnit.objects.filter(claimed_by__isnull=False)
    assert len(accepted) == rows.count() == min(creates, warm + cold)
    assert rows.values("claimed_by").distinct().count() == rows.count()
    assert rows.filter(is_warm_start=True).count() == rows.filter(node="n2").count() == warm


@ONE
def test_a_comparison_records_the_nodes_and_the_images(world: UnitWorld) -> None:
    world.seed(1)
    put_pods_on(world.cluster, "n1")
    put_node(world.cluster, "n1", ["vllm/vllm-openai:v1"])
    put_node(world.cluster, "unused", ["busybox:1.36"])

    compare_nodes(world.cluster)

    assert list(GpuUnit.objects.values_list("node", flat=True)) == ["n1"]
    assert list(NodeImages.objects.values_list("name", "images")) == [("n1", [WARM_NAME])]


@ONE
def test_a_comparison_without_changes_writes_nothing(world: UnitWorld) -> None:
    world.seed(2)
    put_pods_on(world.cluster, "n1")
    put_node(world.cluster, "n1", ["busybox:1.36"])
    compare_nodes(world.cluster)

    with CaptureQueriesContext(connection) as queries:
        compare_nodes(world.cluster)

    written = [one["sql"] for one in queries if one["sql"].startswith(("UPDATE", "INSERT"))]
    assert written == []


@ONE
def test_a_failed_read_keeps_nodes_and_images(
    world: UnitWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.seed(1)
    put_pods_on(world.cluster, "n1")
    put_node(world.cluster, "n1", ["busybox:1.36"])
    compare_nodes(world.cluster)
    world.cluster.fail("list", NODE, ClusterUnavailable("cut"))

    with pytest.raises(ClusterUnavailable):
        compare_nodes(world.cluster)

    assert GpuUnit.objects.get().node == "n1"
    assert NodeImages.objects.get().images == ["docker.io/library/busybox:1.36"]


@ONE
def test_a_unit_without_a_pod_keeps_its_last_node(world: UnitWorld) -> None:
    world.seed(1)
    put_pods_on(world.cluster, "n1")
    put_node(world.cluster, "n1")
    compare_nodes(world.cluster)
    for pod in world.cluster.list(POD).items:
        world.cluster.remove(POD, pod["metadata"]["name"], namespace=STOCK_NAMESPACE)

    compare_nodes(world.cluster)

    assert GpuUnit.objects.get().node == "n1"
    assert not NodeImages.objects.exists()


@pytest.fixture
def warm(world: UnitWorld) -> GpuSpec:
    """A GPU spec with a warm image, and stock on two nodes."""
    for name in ("n1", "n2"):
        stock_row(node=name)
        node_images(name)
    node_images("n3")
    return spec_row(warm_images=[WARM], image_pull_secrets=[{"name": "registry"}])


@ONE
def test_pullers_exist_on_exactly_the_nodes_with_units(world: UnitWorld, warm: GpuSpec) -> None:
    unit_row(node="n3")
    unit_row(UnitPhase.STOPPED, node="n4", is_suspended=True)
    stock_row(node="gone")
    stock_row(node="")

    keep_warm_images(world.cluster)

    found = pullers(world.cluster)
    assert [pod["spec"]["nodeName"] for pod in found] == ["n1", "n2", "n3"]
    for pod in found:
        assert [one["image"] for one in pod["spec"]["containers"]] == [WARM]
        assert {"name": "registry"} in pod["spec"]["imagePullSecrets"]
    assert states() == [
        (name, WARM_NAME, WarmImageState.PULLING, "") for name in ("n1", "n2", "n3")
    ]


@ONE
def test_a_second_run_writes_nothing(world: UnitWorld, warm: GpuSpec) -> None:
    keep_warm_images(world.cluster)
    before, since = len(world.cluster.writes), WarmImage.objects.values_list("since")
    known = list(since)

    keep_warm_images(world.cluster)

    assert len(world.cluster.writes) == before
    assert list(since.all()) == known


@ONE
@pytest.mark.parametrize(
    "change", [{"warm_images": []}, {"is_enabled": False}], ids=["removed", "disabled"]
)
def test_pullers_that_are_not_wanted_are_deleted(
    world: UnitWorld, warm: GpuSpec, change: dict[str, Any]
) -> None:
    keep_warm_images(world.cluster)
    GpuSpec.objects.update(**change)

    keep_warm_images(world.cluster)

    assert pullers(world.cluster) == []
    assert states() == []


@ONE
def test_pullers_of_a_deleted_spec_are_deleted(world: UnitWorld, warm: GpuSpec) -> None:
    keep_warm_images(world.cluster)
    warm.delete()

    keep_warm_images(world.cluster)

    assert pullers(world.cluster) == []


@ONE
def test_a_failed_read_deletes_no_puller(world: UnitWorld, warm: GpuSpec) -> None:
    keep_warm_images(world.cluster)
    warm.delete()
    world.cluster.fail("list", POD, ClusterUnavailable("cut"))

    with pytest.raises(ClusterUnavailable):
        keep_warm_images(world.cluster)

    assert len(pullers(world.cluster)) == 2


@ONE
def test_a_changed_list_replaces_the_pullers_and_leaves_stock_alone(
    world: UnitWorld, warm: GpuSpec
) -> None:
    keep_warm_images(world.cluster)
    GpuSpec.objects.update(warm_images=[WARM, "busybox:1.36"])
    before = list(GpuUnit.objects.order_by("id").values("phase", "due_seq", "spec"))

    keep_warm_images(world.cluster)

    assert [len(pod["spec"]["containers"]) for pod in pullers(world.cluster)] == [2, 2]
    assert list(GpuUnit.objects.order_by("id").values("phase", "due_seq", "spec")) == before


@ONE
def test_a_failed_pull_is_recorded_with_its_cause_and_affects_no_claim(
    world: UnitWorld, warm: GpuSpec
) -> None:
    keep_warm_images(world.cluster)
    first, second = pullers(world.cluster)
    waiting = {"reason": "ImagePullBackOff", "message": "not found"}
    failed = {"name": "image-0", "state": {"waiting": waiting}}
    running = {"name": "image-0", "state": {"running": {}}, "containerID": "containerd://1"}
    world.cluster.put(POD, {**first, "status": {"containerStatuses": [failed]}})
    world.cluster.put(POD, {**second, "status": {"containerStatuses": [running]}})

    keep_warm_images(world.cluster)
    world.create("a", image=WARM)
    world.create("b", image=WARM)

    assert states() == [
        ("n1", WARM_NAME, WarmImageState.FAILED, StartupCause.IMAGE_PULL_FAILED),
        ("n2", WARM_NAME, WarmImageState.PRESENT, ""),
    ]
    assert (claimed("a"), claimed("b")) == ("n2", "n1")


@ONE
def test_a_rejected_puller_stops_the_creation_of_the_pullers_of_its_spec(
    world: UnitWorld, warm: GpuSpec
) -> None:
    world.cluster.fail("create", POD, ClusterForbidden("exceeded quota"))

    keep_warm_images(world.cluster)

    assert pullers(world.cluster) == []
    assert states() == [
        ("n1", WARM_NAME, WarmImageState.FAILED, StartupCause.POD_REJECTED),
        ("n2", WARM_NAME, WarmImageState.FAILED, StartupCause.POD_REJECTED),
    ]
    keep_warm_images(world.cluster)
    assert len(pullers(world.cluster)) == 2


@ONE
def test_a_rejected_puller_does_not_affect_other_specs(world: UnitWorld, warm: GpuSpec) -> None:
    spec_row("other", warm_images=["a:1"])
    GpuUnit.objects.filter(node="n2").update(spec_name="other")
    first, second = sorted((warm.name, "other"))
    world.cluster.fail("create", POD, ClusterForbidden("image is not permitted"))

    keep_warm_images(world.cluster)

    found = {row.spec_name: row.state for row in WarmImage.objects.all()}
    assert found == {first: WarmImageState.FAILED, second: WarmImageState.PULLING}
    assert len(pullers(world.cluster)) == 1


@COMMITTING
def test_concurrent_runs_create_each_puller_once(world: UnitWorld, warm: GpuSpec) -> None:
    results = at_once([partial(keep_warm_images, world.cluster)] * 4)

    assert results == [None] * 4
    assert len(pullers(world.cluster)) == 2
    assert len(states()) == 2
