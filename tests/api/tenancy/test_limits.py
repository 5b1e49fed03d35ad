"""The limits of tenants in the API: shapes, rejections, conditions, replays and bad input."""

from typing import Any

import pytest

from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.models import Tenant, TenantLimit
from gpuplatform.tenancy.selectors import tenant_by_name
from tests.factories.limits import limit
from tests.factories.unit_rows import stock_row, unit_row
from tests.fakes.api import UNITS, Answer, Api

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("broker", "catalogue", "cluster")]

LIMITS = "/api/v1/operator/tenants/default/limits"


@pytest.fixture
def api() -> Api:
    return Api()


def put(api: Api, limits: Any, operation_id: str = "op-1", **extra: Any) -> Answer:
    return api.put(LIMITS, {"operationID": operation_id, "limits": limits}, **extra)


def stored() -> dict[str, int]:
    rows = TenantLimit.objects.filter(tenant=tenant_by_name())
    return dict(rows.values_list("resource", "hard"))


def unit(name: str) -> dict[str, Any]:
    image = "docker.io/library/nginx:1.27"
    return {"operationID": f"create-{name}", "name": name, "specName": "g1.1", "image": image}


def test_limits_are_replaced_and_read_with_their_use(api: Api) -> None:
    unit_row(gpus_seen=1)
    unit_row(gpus_seen=2, is_suspended=True)

    found = put(api, {"gpus": 8, "gpus.g1.1": 4, "tokens": 0})

    assert found.status == 202
    assert found.data["kind"] == "tenant.limits"
    assert found.data["object"]["href"] == LIMITS.removesuffix("/limits")
    assert found.headers["Location"] == "/api/v1/operator/jobs/op-1?tenant=default"
    assert api.get(found.headers["Location"]).status == 200
    read = api.get(LIMITS)
    assert read.data == {
        "name": "default",
        "limits": {"gpus": 8, "gpus.g1.1": 4, "tokens": 0},
        "used": {"gpus": 3, "gpus.g1.1": 3, "openOperations": 1, "tokens": 0, "units": 2},
        "releasing": {"gpus": 2, "gpus.g1.1": 2},
    }
    assert api.get("/api/v1/tenant").data == read.data
    assert put(api, {"units": 1}, "op-2").status == 202
    assert stored() == {"units": 1}
    assert put(api, {}, "op-3").status == 202
    assert stored() == {}


def test_a_replay_changes_nothing(api: Api) -> None:
    put(api, {"gpus": 1})
    put(api, {"gpus": 2}, "op-2")

    again = put(api, {"gpus": 1})

    assert (again.status, again.headers["Idempotent-Replayed"]) == (200, "true")
    assert stored() == {"gpus": 2}
    assert put(api, {"gpus": 3}).code == "operation_conflict"
    assert Operation.objects.count() == 2


def test_a_change_of_another_version_is_rejected(api: Api) -> None:
    etag = api.get(LIMITS).headers["ETag"]
    assert put(api, {"gpus": 1}, HTTP_IF_MATCH=etag).status == 202

    stale = put(api, {"gpus": 2}, "op-2", HTTP_IF_MATCH=etag)

    assert (stale.status, stale.code) == (412, "stale_etag")
    assert stored() == {"gpus": 1}
    assert Operation.objects.count() == 1
    current = api.get(LIMITS).headers["ETag"]
    assert put(api, {"gpus": 2}, "op-2", HTTP_IF_MATCH=current).status == 202


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        ({"gpu": 1}, "limits.gpu"),
        ({"gpus.": 1}, "limits['gpus.']"),
        ({"gpus.A B": 1}, "limits['gpus.A B']"),
        ({"storages": 1}, "limits.storages"),
        ({"storageBytes": 1}, "limits.storageBytes"),
        ({"gpus": -1}, "limits.gpus"),
        ({"gpus": 2**31}, "limits.gpus"),
        ({"gpus": True}, "limits.gpus"),
        ({"gpus": None}, "limits.gpus"),
        ({"gpus": 1.5}, "limits.gpus"),
        ({"gpus": "1"}, "limits.gpus"),
        ({f"gpus.s{n}": 1 for n in range(201)}, "limits"),
        (None, "limits"),
        ([], "limits"),
    ],
)
def test_invalid_limits_name_the_field_and_change_nothing(
    api: Api, limits: Any, field: str
) -> None:
    limit(gpus=3)

    found = put(api, limits)

    assert (found.status, found.code) == (400, "invalid_request")
    assert found.fields == [field]
    assert stored() == {"gpus": 3}
    assert Operation.objects.count() == 0


def test_an_unknown_tenant_is_not_found(api: Api) -> None:
    path = "/api/v1/operator/tenants/nobody/limits"

    assert api.get(path).code == "not_found"
    assert api.put(path, {"operationID": "op-1", "limits": {}}).code == "not_found"


def test_a_rejected_create_returns_the_values_and_can_be_repeated(api: Api) -> None:
    stock_row()
    limit(gpus=1)
    running = unit_row(gpus_seen=1, is_suspended=True)

    found = api.post(UNITS, unit("a"))

    assert (found.status, found.code) == (409, "quota_exceeded")
    assert found.fields == ["gpus"]
    assert found.json["error"]["quota"] == [
        {"resource": "gpus", "used": 1, "releasing": 1, "allowed": 1, "requested": 1}
    ]
    assert api.get(f"{UNITS}/a").status == 404
    type(running).objects.filter(pk=running.pk).update(gpus_seen=0)
    assert api.post(UNITS, unit("a")).status == 202


def test_the_limits_of_a_tenant_do_not_limit_another_one(api: Api) -> None:
    stock_row()
    other = Tenant.objects.create(name="other", namespace="tenant-other")
    limit(other, gpus=0, units=0)

    assert api.post(UNITS, unit("a")).status == 202
