"""The routes with which operators cancel and retry operations."""

import pytest
from django.db.models.functions import Now
from django.test import Client
from pytest_django import Settings

from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.models import Scope, Tenant
from gpuplatform.tenancy.services import token_create
from tests.factories.inventory import accept_create
from tests.fakes.api import JOBS, POOLS, Api
from tests.fakes.cluster import FakeCluster

pytestmark = pytest.mark.django_db


@pytest.fixture
def failed(cluster: FakeCluster) -> Operation:
    """A failed create that can be retried."""
    operation = accept_create(name="a", operationID="first").operation
    operation.stock_pools.update(deleted_at=Now())
    Operation.objects.filter(pk=operation.pk).update(
        phase="Failed",
        error_code="invalid_request",
        error_message="The namespace does not exist.",
        error_retryable=True,
        due_at=None,
        ended_at=Now(),
    )
    return operation


def test_a_cancellation_is_an_operation_on_an_operation(api: Api, cluster: FakeCluster) -> None:
    accept_create(name="a", operationID="op")

    answer = api.post(f"{JOBS}/op/cancel", {"operationID": "stop-it"})

    assert (answer.status, answer.headers["Location"]) == (202, f"{JOBS}/stop-it")
    assert answer.data["kind"] == "job.cancel"
    assert answer.data["object"] == {
        "kind": "Operation",
        "namespace": "runtime-instance",
        "name": "op",
        "uid": None,
        "href": f"{JOBS}/op?tenant=default",
    }
    assert api.get(answer.data["object"]["href"]).data["phase"] == "Cancelled"
    assert api.get(f"{POOLS}/a").status == 404


def test_a_retry_is_an_operation_of_the_same_kind(api: Api, failed: Operation) -> None:
    answer = api.post(f"{JOBS}/first/retry", {"operationID": "second"})

    assert (answer.status, answer.headers["Location"]) == (202, f"{JOBS}/second")
    assert (answer.data["kind"], answer.data["object"]["name"]) == ("stockpool.create", "a")
    assert api.get(f"{JOBS}/first").data["phase"] == "Failed"


@pytest.mark.parametrize("verb", ["cancel", "retry"])
def test_a_repeated_request_is_a_replay(
    api: Api, failed: Operation, verb: str, cluster: FakeCluster
) -> None:
    accept_create(name="b", operationID="open")
    path = f"{JOBS}/{'open' if verb == 'cancel' else 'first'}/{verb}"
    first = api.post(path, {"operationID": "new"})

    again = api.post(path, {"operationID": "new"})

    assert (first.status, again.status) == (202, 200)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert Operation.objects.count() == 3


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("first/cancel", "phase_conflict"),
        ("open/retry", "phase_conflict"),
        ("none/cancel", "not_found"),
        ("none/retry", "not_found"),
    ],
)
def test_a_rejected_intervention_leaves_no_operation(
    api: Api, failed: Operation, path: str, code: str
) -> None:
    accept_create(name="b", operationID="open")

    answer = api.post(f"{JOBS}/{path}", {"operationID": "new"})

    assert (answer.status, answer.code) == (409 if code == "phase_conflict" else 404, code)
    assert not Operation.objects.filter(operation_id="new").exists()


def test_a_retry_whose_name_is_in_use_is_a_name_conflict(api: Api, failed: Operation) -> None:
    accept_create(name="a")

    answer = api.post(f"{JOBS}/first/retry", {"operationID": "new"})

    assert (answer.status, answer.code) == (409, "name_conflict")


@pytest.mark.parametrize("body", [{}, {"operationID": "a b"}, {"operationID": "x", "force": True}])
@pytest.mark.parametrize("verb", ["cancel", "retry"])
def test_bad_input_names_the_field(
    api: Api, cluster: FakeCluster, verb: str, body: dict[str, object]
) -> None:
    accept_create(operationID="op")

    answer = api.post(f"{JOBS}/op/{verb}", body)

    assert (answer.status, answer.fields) == (400, ["force" if "force" in body else "operationID"])
    assert Operation.objects.get().phase == "Pending"


def test_an_operation_of_another_tenant_is_addressed_with_the_tenant(
    api: Api, cluster: FakeCluster
) -> None:
    accept_create(name="a", operationID="theirs")
    other = Tenant.objects.create(name="other", namespace="tenant-other")
    Operation.objects.update(tenant=other)

    without = api.post(f"{JOBS}/theirs/cancel", {"operationID": "c"})
    answer = api.post(f"{JOBS}/theirs/cancel?tenant=other", {"operationID": "c"})

    assert (without.status, answer.status) == (404, 202)
    assert answer.headers["Location"] == f"{JOBS}/c?tenant=other"
    assert api.get(answer.headers["Location"]).data["operationID"] == "c"


@pytest.mark.parametrize("verb", ["cancel", "retry"])
def test_operator_routes_reject_users(settings: Settings, cluster: FakeCluster, verb: str) -> None:
    operation = accept_create(operationID="op").operation
    settings.GPUPLATFORM_DEV = False
    settings.ALLOWED_HOSTS = ["testserver"]
    _, secret = token_create(tenant=operation.tenant, name="ci", scopes=[Scope.USER])
    users = Api(Client(raise_request_exception=False, HTTP_AUTHORIZATION=f"Bearer {secret}"))

    assert Api().post(f"{JOBS}/op/{verb}", {"operationID": "x"}).status == 401
    assert users.post(f"{JOBS}/op/{verb}", {"operationID": "x"}).status == 403
    assert Operation.objects.get().phase == "Pending"
