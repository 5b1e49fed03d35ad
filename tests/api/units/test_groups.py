"""Groups of units in the API: acceptance, replays, refusals, state and deletion."""

from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.models import Tenant
from tests.factories.node_rows import node_row
from tests.factories.unit_rows import stock_row, unit_row
from tests.fakes.api import UNITS, Api
from tests.fakes.cluster import FakeCluster
from units.models import GpuUnit
from units.requests import UnitGroupCreate
from units.services.groups import group_create

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("catalogue")]

GROUPS = "/api/v1/unit-groups"
QUEUE = "/api/v1/operator/queue"
UNIT = {"specName": "g1.1", "image": "docker.io/library/nginx:1.27"}
WAIT = {"maxSeconds": 3600}


def body(name: str = "team", **fields: Any) -> dict[str, Any]:
    return {"operationID": f"create-{name}", "name": name, "size": 3, "unit": UNIT, **fields}


def test_a_waiting_group_shows_its_place_and_its_units(api: Api, cluster: FakeCluster) -> None:
    accepted = api.post(GROUPS, body(wait=WAIT))

    assert (accepted.status, accepted.data["kind"]) == (202, "group.create")
    assert accepted.data["object"]["href"] == f"{GROUPS}/team"
    place = {"position": 1, "ahead": 0, "estimateSeconds": None}
    group = api.get(f"{GROUPS}/team").data
    assert (group["phase"], group["size"], group["ready"]) == ("Pending", 3, 0)
    assert (group["queue"], group["specName"]) == (place, "g1.1")
    assert [(one["name"], one["rank"], one["reason"]) for one in group["members"]] == [
        ("team-0", 0, "WaitingForCapacity"),
        ("team-1", 1, "WaitingForCapacity"),
        ("team-2", 2, "WaitingForCapacity"),
    ]
    unit = api.get(f"{UNITS}/team-1").data
    assert (unit["group"], unit["queue"]) == ({"name": "team", "rank": 1, "size": 3}, place)
    [entry] = api.get(QUEUE).data
    assert (entry["group"], entry["size"], entry["unit"]) == ("team", 3, "team-0")
    assert api.get("/api/v1/operations/create-team").data["queue"] == place


def test_a_group_claims_ready_stock_and_a_replay_returns_the_operation(
    api: Api, cluster: FakeCluster
) -> None:
    for _ in range(3):
        stock_row()

    first, replay = api.post(GROUPS, body()), api.post(GROUPS, body())

    assert (first.status, replay.status) == (202, 200)
    assert first.data["progress"] == replay.data["progress"] == {"done": 0, "total": 3}
    assert GpuUnit.objects.filter(claimed_by__isnull=False).count() == 3
    assert api.post(GROUPS, body(size=2)).json["error"]["code"] == "operation_conflict"


def test_the_priority_of_a_group_is_limited_by_its_tenant_and_orders_the_queue(
    api: Api, cluster: FakeCluster
) -> None:
    refused = api.post(GROUPS, body(wait=WAIT, priority=1))
    Tenant.objects.update(max_priority=50)
    first = api.post(GROUPS, body("low", wait=WAIT))
    second = api.post(GROUPS, body("high", wait=WAIT, priority=50))
    invalid = [api.post(GROUPS, body(wait=WAIT, priority=bad)) for bad in (51, -1, "1", 1.5)]

    assert [one.status for one in (refused, *invalid)] == [400] * 5
    assert [one.fields for one in (refused, *invalid)] == [["priority"]] * 5
    assert (first.status, second.status) == (202, 202)
    queue = api.get(QUEUE).data
    assert [(one["group"], one["priority"]) for one in queue] == [("high", 50), ("low", 0)]
    assert api.get(f"{UNITS}/high-1").data["priority"] == 50
    rows = GpuUnit.objects.filter(group_name="high").values_list("priority", flat=True)
    assert list(rows) == [50] * 3


def test_a_group_that_the_nodes_can_never_have_is_rejected_with_the_numbers(
    api: Api, cluster: FakeCluster
) -> None:
    """The nodes have two GPUs, and one of the nodes is cordoned."""
    node_row("n1", 1)
    node_row("n2", 1, is_schedulable=False)

    answers = [api.post(GROUPS, one) for one in (body(), body(wait=WAIT))]
    possible = api.post(GROUPS, body(size=2, wait=WAIT))

    for answer in answers:
        assert (answer.status, answer.json["error"]["code"]) == (409, "capacity_exceeded")
        assert answer.json["error"]["details"] == [
            {"field": "size", "message": "3 needed, at most 2 possible."}
        ]
    assert possible.status == 202
    assert Operation.objects.count() == 1


def test_a_group_without_stock_is_refused_with_what_is_left(
    api: Api, cluster: FakeCluster
) -> None:
    stock_row()

    refused = api.post(GROUPS, body())

    assert (refused.status, refused.json["error"]["code"]) == (409, "insufficient_capacity")
    assert refused.json["error"]["waiting"] == 0
    assert [one["field"] for one in refused.json["error"]["details"]] == ["size"]
    assert api.get(f"{GROUPS}/team").status == 404
    assert api.get(UNITS).data == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        pytest.param({"size": 1}, "size", id="one unit"),
        pytest.param({"size": 65}, "size", id="too many units"),
        pytest.param({"size": "3"}, "size", id="size as text"),
        pytest.param({"name": "a" * 56}, "name", id="name too long for its units"),
        pytest.param({"name": "A"}, "name", id="name is not a DNS label"),
        pytest.param({"unit": {**UNIT, "specName": "?"}}, "unit.specName", id="spec name"),
        pytest.param({"unit": {**UNIT, "specName": "g9"}}, "specName", id="unknown spec"),
        pytest.param({"unit": {**UNIT, "name": "a"}}, "unit.name", id="name of a unit"),
        pytest.param({"unit": {"specName": "g1.1"}}, "unit.image", id="no image"),
        pytest.param({"wait": {"maxSeconds": 0}}, "wait.maxSeconds", id="wait"),
        pytest.param({"stockName": "a"}, "stockName", id="named stock"),
        pytest.param(
            {"unit": {**UNIT, "template": {"envs": [{"name": "GROUP_RANK", "value": "7"}]}}},
            "unit.template.envs[0].name",
            id="variable of groups",
        ),
    ],
)
def test_a_malformed_group_is_refused_with_the_field_and_leaves_nothing(
    api: Api, cluster: FakeCluster, changes: dict[str, Any], field: str
) -> None:
    refused = api.post(GROUPS, body(**changes))

    assert (refused.status, refused.json["error"]["code"]) == (400, "invalid_request")
    assert [one["field"] for one in refused.json["error"]["details"]] == [field]
    assert not GpuUnit.objects.exclude(group_name="").exists()
    assert not Operation.objects.exists()


def test_a_change_of_a_unit_of_a_group_keeps_the_variables_of_the_group(
    api: Api, cluster: FakeCluster
) -> None:
    group = {"name": "team", "rank": 0, "size": 2}
    spec = {**UNIT, "gpu": 1, "group": group}
    unit_row(name="team-0", spec=spec, group_name="team", group_rank=0)
    template = {"envs": [{"name": "GROUP_SIZE", "value": "9"}]}

    refused = api.put(f"{UNITS}/team-0", {"operationID": "put-1", "template": template})

    assert refused.status == 400
    assert [one["field"] for one in refused.json["error"]["details"]] == ["template.envs[0].name"]
    allowed = api.put(f"{UNITS}/team-0", {"operationID": "put-2", "image": UNIT["image"]})
    assert allowed.status == 202


@pytest.mark.parametrize("action", ["stop", "start", "delete"])
def test_a_unit_of_a_group_is_not_changed_alone(
    api: Api, cluster: FakeCluster, action: str
) -> None:
    api.post(GROUPS, body(wait=WAIT))

    if action == "delete":
        refused = api.delete(f"{UNITS}/team-0", operationID="alone")
    else:
        refused = api.post(f"{UNITS}/team-0/{action}", {"operationID": "alone"})

    assert (refused.status, refused.json["error"]["code"]) == (409, "phase_conflict")


def test_the_deletion_of_a_group_is_accepted_once(api: Api, cluster: FakeCluster) -> None:
    api.post(GROUPS, body(wait=WAIT))

    deleted = api.delete(f"{GROUPS}/team", operationID="delete-1")

    assert (deleted.status, deleted.data["kind"]) == (202, "group.delete")
    assert api.delete(f"{GROUPS}/team", operationID="delete-1").status == 200
    assert api.get(f"{GROUPS}/team").data["phase"] == "Terminating"
    conflict = api.post(GROUPS, {**body(wait=WAIT), "operationID": "create-2"})
    assert (conflict.status, conflict.json["error"]["code"]) == (409, "name_conflict")
    assert api.get(f"{GROUPS}/other").status == 404
    assert api.delete(f"{GROUPS}/other", operationID="delete-2").status == 404


def test_the_list_has_the_newest_group_first_in_pages_and_filters(
    api: Api, cluster: FakeCluster
) -> None:
    for name in ("one", "two", "three"):
        api.post(GROUPS, body(name, wait=WAIT))
    other = Tenant.objects.create(name="b", namespace="tenant-b")
    group_create(tenant=other, body=UnitGroupCreate.parse(body("hidden", wait=WAIT)))

    first = api.get(f"{GROUPS}?limit=2")
    rest = api.get(f"{GROUPS}?limit=2&cursor={first.json['page']['next']}")

    assert [one["name"] for one in first.data] == ["three", "two"]
    assert [one["name"] for one in rest.data] == ["one"]
    assert [one["name"] for one in api.get(f"{GROUPS}?search=TW").data] == ["two"]
    assert api.get(f"{GROUPS}?specName=g9").data == []
    assert api.get(f"{GROUPS}?colour=red").status == 400
    assert api.get(f"{GROUPS}/hidden").status == 404


def test_the_number_of_queries_of_the_list_does_not_depend_on_its_length(
    api: Api, cluster: FakeCluster
) -> None:
    numbers = []
    for count in (1, 4):
        for index in range(count):
            api.post(GROUPS, body(f"team-{count}-{index}", wait=WAIT))
        with CaptureQueriesContext(connection) as queries:
            api.get(GROUPS)
        numbers.append(len(queries))

    assert numbers[0] == numbers[1]


def test_a_group_is_stopped_and_started_as_a_whole(api: Api, cluster: FakeCluster) -> None:
    for _ in range(3):
        stock_row()
    api.post(GROUPS, body())
    path = f"{GROUPS}/team"

    created = api.post(f"{path}/stop", {"operationID": "stop-1"})
    GpuUnit.objects.filter(group_name="team").update(uid=F("name"))
    stop, again = (api.post(f"{path}/stop", {"operationID": "stop-2"}) for _ in range(2))
    GpuUnit.objects.filter(group_name="team").update(is_suspended=True)
    start = api.post(f"{path}/start", {"operationID": "start-1"})

    assert (created.status, created.code) == (409, "phase_conflict")
    assert (stop.status, again.status, stop.data["kind"]) == (202, 200, "group.stop")
    assert (stop.data["progress"]["total"], stop.data["object"]["href"]) == (3, path)
    assert (start.status, start.code) == (409, "insufficient_capacity")
    assert not Operation.objects.filter(kind__in=("group.start", "unit.start")).exists()
    assert api.post(f"{path}/stop", {"operationID": "x", "wait": {}}).status == 400
    assert api.post(f"{GROUPS}/other/start", {"operationID": "start-1"}).status == 404
