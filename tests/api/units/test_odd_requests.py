"""Odd input on the routes of nodes, drains, the queue and groups: JSON errors, nothing stored."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import quote

import pytest

from gpuplatform.operations.models import Operation
from inventory.models import NodeDrain
from tests.factories.node_rows import node_row
from tests.factories.unit_rows import stock_row
from tests.fakes.api import Answer, Api
from tests.fakes.cluster import FakeCluster
from units.models import CapacityRequest, GpuUnit

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("catalogue")]

NODES, QUEUE = "/api/v1/operator/nodes", "/api/v1/operator/queue"
GROUPS = "/api/v1/unit-groups"
NODE = f"{NODES}/gpu-node-1"
HUGE = 10**400
VALUES: list[Any] = [
    *(None, True, "", "x" * 5000, "\x00", "a\x00b", "ä", "\ud800", "../..", "{{7*7}}"),
    *(-1, 0.5, 1e308, HUGE, -(2**63), 2**31, [], [1], {}, {"a": 1}),
]
UNIT = {"specName": "g1.1", "image": "docker.io/library/nginx:1.27"}
GROUP: dict[str, Any] = {"operationID": "x", "name": "team", "size": 2, "unit": UNIT}
BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "cordon": (f"{NODE}/cordon", {"operationID": "x"}),
    "uncordon": (f"{NODE}/uncordon", {"operationID": "x"}),
    "drain": (
        f"{NODE}/drain",
        {"operationID": "x", "units": "stop", "noticeMinutes": 30},
    ),
    "cancel of a drain": (f"{NODE}/drain/cancel", {"operationID": "x"}),
    "group": (GROUPS, {**GROUP, "wait": {"maxSeconds": 60}, "priority": 0}),
}
FIELDS = [
    (route, name) for route, (_, fields) in BODIES.items() for name in (*fields, "unknownField")
]
NAMES = [
    *("absent", "x" * 300, "\x00", "a\x00", "ä", "..", "%2e%2e", "a b", "A", "-", "' OR 1=1 --"),
    str(2**70),
]
QUERIES: list[dict[str, Any]] = [
    *({"limit": value} for value in ("0", "-1", "x", "1e3", str(HUGE), "\x00", "1001", "")),
    *({"cursor": value} for value in ("x", "\x00", "-1", "ä", "x" * 5000)),
    {"unknown": "1"},
]


@pytest.fixture(autouse=True)
def rows(cluster: FakeCluster) -> None:
    """A node, and too little stock for a group."""
    node_row()
    stock_row()


def stored() -> tuple[object, ...]:
    """Return what a request can store."""
    counts = (Operation.objects.count(), CapacityRequest.objects.count())
    units = tuple(GpuUnit.objects.order_by("id").values_list("name", "claimed_by", "phase"))
    return (*counts, NodeDrain.objects.count(), units)


def rejected(send: Callable[[], Answer], *statuses: int) -> Answer:
    """Send a request, which must be rejected and store nothing."""
    before = stored()
    answer = send()
    assert answer.status in statuses, answer
    assert answer.code
    assert stored() == before
    return answer


@pytest.mark.parametrize(("route", "name"), FIELDS)
def test_an_odd_field_is_rejected(api: Api, route: str, name: str) -> None:
    url, body = BODIES[route]

    for value in VALUES:
        text = json.dumps({**body, name: value}).encode()
        answer = rejected(partial(api.send, "POST", url, text), 400)
        # A lone surrogate is rejected by the parser, which names no field.
        assert all(not one or one.startswith(name) for one in answer.fields), (value, answer)


@pytest.mark.parametrize("field", ["specName", "image", "template", "access", "unknownField"])
def test_an_odd_field_of_the_units_of_a_group_is_rejected(api: Api, field: str) -> None:
    for value in VALUES:
        if value == {} and field in {"template", "access"}:
            continue  # An empty block is the default.
        body = {**GROUP, "unit": {**UNIT, field: value}}
        text = json.dumps(body).encode()
        rejected(partial(api.send, "POST", GROUPS, text), 400)


@pytest.mark.parametrize("route", BODIES)
def test_a_body_that_is_no_object_is_rejected(api: Api, route: str) -> None:
    url, _ = BODIES[route]

    for body in (b"", b"[]", b"null", b"1", b'"x"', b"{", b"\xff", b'{"operationID":"a",' * 2):
        rejected(partial(api.send, "POST", url, body), 400)


@pytest.mark.parametrize("name", NAMES)
def test_an_object_that_does_not_exist_is_not_found(api: Api, name: str) -> None:
    part = quote(name, safe="")
    body = {"operationID": "x"}

    for action in ("cordon", "uncordon", "drain", "drain/cancel"):
        url = f"{NODES}/{part}/{action}"
        rejected(partial(api.post, url, body), 404)
    rejected(lambda: api.get(f"{NODES}/{part}"), 404)
    rejected(lambda: api.get(f"{GROUPS}/{part}"), 404)
    rejected(lambda: api.delete(f"{GROUPS}/{part}", operationID="x"), 404)


@pytest.mark.parametrize("url", [NODES, QUEUE, GROUPS])
@pytest.mark.parametrize("query", QUERIES, ids=lambda one: str(one)[:40])
def test_an_odd_query_is_rejected(api: Api, url: str, query: dict[str, Any]) -> None:
    rejected(lambda: api.get(url, **query), 400)


@pytest.mark.parametrize(
    ("url", "field"),
    [
        (NODES, "search"),
        (QUEUE, "specName"),
        (QUEUE, "tenant"),
        (GROUPS, "specName"),
        (GROUPS, "search"),
    ],
)
def test_an_odd_filter_finds_nothing_or_is_rejected(api: Api, url: str, field: str) -> None:
    for value in ("\x00", "ä", "x" * 5000, "%", "_", "'", '"', "\\", "absent", str(HUGE)):
        answer = api.get(url, **{field: value})
        assert answer.status in {200, 400}, (value, answer)
        assert answer.code or answer.data == []


@pytest.mark.parametrize("operation_id", ["", "a b", "x" * 129, "\x00", "ä", "..", str(HUGE)])
def test_an_odd_operation_id_of_a_deletion_is_rejected(api: Api, operation_id: str) -> None:
    rejected(lambda: api.delete(f"{GROUPS}/absent", operationID=operation_id), 400)


@pytest.mark.parametrize("url", [NODES, NODE, QUEUE, GROUPS, f"{NODE}/drain"])
@pytest.mark.parametrize("method", ["PUT", "PATCH", "TRACE", "PROPFIND"])
def test_other_methods_are_rejected(api: Api, url: str, method: str) -> None:
    rejected(lambda: api.send(method, url, b"{}"), 405)
