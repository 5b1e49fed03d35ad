"""The routes of tenants: accepted operations, rejected fields, and suspended tokens."""

from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from gpuplatform.operations import driver
from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.models import ApiToken, Tenant
from gpuplatform.tenancy.phases import TenantPhase
from gpuplatform.tenancy.services import token_create
from tests.factories.unit_rows import unit_row
from tests.fakes.api import JOBS, UNITS, Api
from tests.fakes.cluster import FakeCluster
from tests.fakes.unit_world import release

TENANTS = "/api/v1/operator/tenants"
ACME = f"{TENANTS}/acme"

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("broker")]


@pytest.fixture
def api() -> Api:
    return Api()


def created(api: Api, name: str = "acme", **fields: Any) -> None:
    answer = api.post(TENANTS, {"operationID": f"create-{name}", "name": name, **fields})
    assert answer.status == 202, answer.json
    driver.run(Operation.objects.get(operation_id=f"create-{name}").pk)


def test_a_created_tenant_is_pending_then_active(api: Api, cluster: FakeCluster) -> None:
    body = {"operationID": "create", "name": "acme", "displayName": "ACME", "weight": 2}

    answer = api.post(TENANTS, body)

    assert (answer.status, answer.data["kind"]) == (202, "tenant.create")
    assert answer.data["object"]["href"] == ACME
    assert answer.headers["Location"] == f"{JOBS}/create"
    assert api.get(ACME).data["phase"] == "Pending"
    driver.run(Operation.objects.get().pk)
    found = api.get(ACME).data
    assert {key: found[key] for key in ("phase", "displayName", "weight", "failure")} == {
        "phase": "Active",
        "displayName": "ACME",
        "weight": 2,
        "failure": None,
    }
    assert (found["namespace"], found["namespaceOrigin"]) == ("tenant-acme", "created")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "Not-a-label"}, "name"),
        ({"name": "a" * 57}, "name"),
        ({"weight": 0}, "weight"),
        ({"weight": 101}, "weight"),
        ({"weight": "1"}, "weight"),
        ({"displayName": "a" * 101}, "displayName"),
        ({"displayName": "\x00"}, "displayName"),
        ({"namespace": "kube-system"}, "namespace"),
        ({"namespace": "default", "adoptNamespace": True}, "namespace"),
        ({"namespace": "runtime-instance"}, "namespace"),
        ({"namespace": ""}, "namespace"),
        ({"adoptNamespace": "yes"}, "adoptNamespace"),
        ({"limits": {}}, "limits"),
    ],
)
def test_bad_input_names_the_field_and_leaves_nothing(
    api: Api, cluster: FakeCluster, changes: dict[str, Any], field: str
) -> None:
    answer = api.post(TENANTS, {"operationID": "create", "name": "acme", **changes})

    assert (answer.status, answer.code, answer.fields) == (400, "invalid_request", [field])
    assert (Operation.objects.count(), Tenant.objects.count()) == (0, 1)


def test_the_list_is_filtered_and_has_no_deleted_tenants(api: Api, cluster: FakeCluster) -> None:
    for name in ("acme", "beta"):
        created(api, name)
        api.delete(f"{TENANTS}/{name}", operationID=f"delete-{name}")
    deletion = Operation.objects.get(operation_id="delete-acme")
    for _ in range(2):
        release(deletion)
        driver.run(deletion.pk)

    queries: tuple[dict[str, str], ...] = ({}, {"search": "ET"}, {"phase": "Deleting,Pending"})
    names = [[one["name"] for one in api.get(TENANTS, **query).data] for query in queries]

    assert names == [["beta", "default"], ["beta"], ["beta"]]


def test_a_change_needs_the_current_etag(api: Api, cluster: FakeCluster) -> None:
    created(api)
    etag = api.get(ACME).headers["ETag"]

    changes = [
        api.patch(ACME, {"operationID": f"change-{number}", "weight": number}, HTTP_IF_MATCH=etag)
        for number in (2, 3)
    ]

    assert [one.status for one in changes] == [202, 412]
    assert api.get(ACME).data["weight"] == 2


def test_a_deletion_with_objects_is_409_with_their_numbers(api: Api, cluster: FakeCluster) -> None:
    created(api)
    row = Tenant.objects.get(name="acme")
    unit_row(tenant=row, namespace=row.namespace)

    answer = api.delete(ACME, operationID="delete")

    assert (answer.status, answer.code, answer.fields) == (409, "in_use", ["units"])
    assert api.get(ACME).data["phase"] == "Active"


def test_an_unknown_tenant_is_404(api: Api, cluster: FakeCluster) -> None:
    body = {"operationID": "one"}

    answers = [
        api.get(ACME),
        api.patch(ACME, {**body, "weight": 1}),
        api.delete(ACME, operationID="one"),
        api.post(f"{ACME}/suspend", body),
        api.post(f"{ACME}/resume", body),
    ]

    assert {(one.status, one.code) for one in answers} == {(404, "not_found")}


def test_the_tokens_of_a_suspended_tenant_only_read(
    api: Api, cluster: FakeCluster, settings: Settings
) -> None:
    created(api)
    row = Tenant.objects.get(name="acme")
    unit_row(name="one", tenant=row, namespace=row.namespace)
    _, secret = token_create(tenant=row, name="ci", scopes=["user", "operator"])
    _, admin = token_create(tenant=row, name="admin", scopes=["admin"])
    token_create(tenant=row, name="leaked", scopes=["write"])
    assert api.post(f"{ACME}/suspend", {"operationID": "suspend"}).status == 202
    settings.GPUPLATFORM_DEV = False
    settings.ALLOWED_HOSTS = ["testserver"]
    headers = {"HTTP_AUTHORIZATION": f"Bearer {secret}"}
    client = Client(headers={"Authorization": f"Bearer {secret}"})
    before = Operation.objects.count()

    writes = [
        api.post(f"{UNITS}/one/stop", {"operationID": "stop"}, **headers),
        api.post(UNITS, {"operationID": "new"}, **headers),
        api.post(f"{ACME}/resume", {"operationID": "resume"}, **headers),
    ]

    assert {(one.status, one.code) for one in writes} == {(403, "tenant_suspended")}
    assert client.get(f"{UNITS}/one").status_code == 200
    assert Operation.objects.count() == before
    own = {"Authorization": f"Bearer {admin}"}
    assert Client(headers=own).delete("/api/v1/tokens/leaked").status_code == 200
    assert ApiToken.objects.get(name="leaked").revoked_at is not None
    Tenant.objects.filter(pk=row.pk).update(phase=TenantPhase.ACTIVE)
    assert api.post(f"{UNITS}/one/stop", {"operationID": "stop"}, **headers).status == 202
