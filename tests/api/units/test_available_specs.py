"""The GPU specs that users can request, and requests that name any other."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from pytest_django import DjangoAssertNumQueries, Settings

from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.models import Scope
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.tenancy.services import token_create
from inventory.models import StockPool
from serverless.models import Function
from tests.factories.unit_rows import spec_row, stock_row, unit_row
from tests.fakes.api import POOLS, STOCK, UNITS, Api
from tests.fakes.cluster import FakeCluster
from units.core.estimate import MIN_GRANTS
from units.models import CapacityRequest, GpuUnit
from units.phases import RequestPhase, UnitPhase

pytestmark = pytest.mark.django_db

AVAILABLE = "/api/v1/gpu-specs"
FUNCTIONS = "/api/v1/serverless/functions"
SHAPE = {
    "name", "description", "gpu", "product", "resourceName", "cpu", "memory", "ready",
    "estimateSeconds",
}  # fmt: skip
IMAGE = {"image": "app:1"}
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "unit": (UNITS, {"name": "a", **IMAGE}),
    "function": (FUNCTIONS, {"requestID": "a", **IMAGE}),
    "pool": (POOLS, {"name": "a", "replicas": 1}),
    "seeding": (STOCK, {"replicas": 1}),
}


def test_a_user_sees_the_enabled_specs_with_their_ready_stock(
    api: Api, cluster: FakeCluster
) -> None:
    spec_row("off", is_enabled=False)
    spec_row("h100-2g", gpu=2, product="H100", description="Two H100", cpu="")
    spec_row("any-1g")
    for phase in (UnitPhase.READY, UnitPhase.READY, UnitPhase.PROGRESSING, UnitPhase.FAILED):
        stock_row(phase, spec_name="h100-2g")
    stock_row(spec_name="h100-2g", consumed_by="uid", consumed_at=Now())
    unit_row(spec_name="h100-2g")

    listed = api.get(AVAILABLE).data

    assert [(one["name"], one["ready"]) for one in listed] == [("any-1g", 0), ("h100-2g", 2)]
    assert set(listed[0]) == SHAPE
    found = api.get(f"{AVAILABLE}/h100-2g").data
    assert found == listed[1]
    assert (found["gpu"], found["product"], found["description"]) == (2, "H100", "Two H100")
    assert (found["cpu"], found["memory"], found["estimateSeconds"]) == (None, "64Gi", [0, 0])
    assert (listed[0]["product"], listed[0]["estimateSeconds"]) == (None, None)
    for name in ("off", "unknown"):
        answer = api.get(f"{AVAILABLE}/{name}")
        assert (answer.status, answer.code) == (404, "not_found")


def test_the_estimate_counts_the_waiting_requests(api: Api, cluster: FakeCluster) -> None:
    spec_row("h100-2g")
    wait = {"maxSeconds": 600}
    for number in range(MIN_GRANTS + 2):
        body = {"operationID": f"create-{number}", "name": f"u{number}", "specName": "h100-2g"}
        assert api.post(UNITS, {**body, **IMAGE, "wait": wait}).status == 202
    granted = CapacityRequest.objects.order_by("id")[:MIN_GRANTS].values("pk")
    CapacityRequest.objects.filter(pk__in=granted).update(
        phase=RequestPhase.GRANTED,
        requested_at=Now() - timedelta(seconds=60),
        granted_at=Now(),
        ahead=0,
    )

    assert api.get(f"{AVAILABLE}/h100-2g").data["estimateSeconds"] == [180, 180]
    stock_row(spec_name="h100-2g")
    assert api.get(f"{AVAILABLE}/h100-2g").data["estimateSeconds"] == [180, 180]
    for _ in range(2):
        stock_row(spec_name="h100-2g")
    assert api.get(f"{AVAILABLE}/h100-2g").data["estimateSeconds"] == [0, 0]


def test_the_specs_are_filtered_and_paged_with_few_queries(
    api: Api, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(5):
        spec_row(f"s{number}", product="H100" if number % 2 else "A100")
    stock_row(spec_name="s1")

    def names(**query: str) -> list[str]:
        return [one["name"] for one in api.get(AVAILABLE, **query).data]

    with django_assert_max_num_queries(5):
        first = api.get(AVAILABLE, limit="3").json
    rest = api.get(AVAILABLE, limit="3", cursor=first["page"]["next"]).data
    assert [one["name"] for one in first["data"] + rest] == ["s4", "s3", "s2", "s1", "s0"]
    assert names(product="H100") == ["s3", "s1"]
    assert names(product="H100,A100", search="S2") == ["s2"]
    assert (names(ready="true"), names(ready="false")) == (["s1"], ["s4", "s3", "s2", "s0"])
    assert api.get(AVAILABLE, ready="maybe").fields == ["ready"]
    assert api.get(AVAILABLE, enabled="true").fields == ["enabled"]


@pytest.mark.parametrize("scope", Scope.values)
def test_the_routes_require_the_permission_to_read(
    api: Api, settings: Settings, scope: str
) -> None:
    settings.GPUPLATFORM_DEV = False
    spec_row("a")
    _, secret = token_create(tenant=tenant_by_name(), name="ci", scopes=[Scope(scope)])

    answers = [
        api.send("GET", path, b"", HTTP_AUTHORIZATION=f"Bearer {secret}")
        for path in (AVAILABLE, f"{AVAILABLE}/a")
    ]

    expected = 200 if scope in {Scope.USER, Scope.READ} else 403
    assert [answer.status for answer in answers] == [expected] * 2


@pytest.mark.parametrize("is_known", [False, True], ids=["unknown", "disabled"])
@pytest.mark.parametrize("kind", REQUESTS)
def test_a_request_with_an_unavailable_spec_names_the_available_ones_and_leaves_nothing(
    api: Api, cluster: FakeCluster, kind: str, is_known: bool
) -> None:
    for name in ("h100-1g", "a100-1g"):
        spec_row(name)
    spec_row("old", is_enabled=False)
    if is_known:
        spec_row("h10O-1g", is_enabled=False)
    stock = stock_row(spec_name="h10O-1g")
    path, body = REQUESTS[kind]

    answer = api.post(path, {"operationID": "typo", "specName": "h10O-1g", **body})

    assert (answer.status, answer.code, answer.fields) == (400, "invalid_request", ["specName"])
    message = answer.json["error"]["details"][0]["message"]
    assert "a100-1g, h100-1g" in message
    assert "old" not in message
    assert not Operation.objects.exists()
    assert not StockPool.objects.exists()
    assert not Function.objects.exists()
    assert [(row.pk, row.claimed_by_id) for row in GpuUnit.objects.all()] == [(stock.pk, None)]


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_replay_is_accepted_after_its_spec_was_disabled(
    api: Api, cluster: FakeCluster, kind: str
) -> None:
    spec = spec_row("h100-1g")
    stock_row(spec_name="h100-1g")
    path, rest = REQUESTS[kind]
    body = {"operationID": "op", "specName": "h100-1g", **rest}
    first = api.post(path, body)
    spec.delete()

    assert (first.status, api.post(path, body).status) == (202, 200)


def test_the_message_names_a_limited_number_of_specs(
    api: Api, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inventory.selectors.MOST_NAMED", 2)
    body = {"operationID": "op", "specName": "x", "replicas": 1}
    messages = []
    for number in range(4):
        messages.append(api.post(STOCK, body).json["error"]["details"][0]["message"])
        spec_row(f"s{number}")

    assert ["s0" in one for one in messages] == [False, True, True, True]
    assert ["s2" in one for one in messages] == [False] * 4
    assert ["…" in one for one in messages] == [False, False, False, True]


def test_objects_of_a_spec_without_an_entry_are_marked(api: Api, cluster: FakeCluster) -> None:
    spec_row("known")
    for name in ("known", "deleted"):
        unit_row(name=name, spec_name=name)
        stock_row(name=f"stock-{name}", spec_name=name)
    paths = {UNITS: "", STOCK: "stock-"}

    for path, prefix in paths.items():
        listed = {one["specName"]: one["specCatalogued"] for one in api.get(path).data}
        read = [
            api.get(f"{path}/{prefix}{name}").data["specCatalogued"]
            for name in ("known", "deleted")
        ]
        assert listed == {"known": True, "deleted": False}
        assert read == [True, False]
