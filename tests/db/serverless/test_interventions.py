"""Cancelling and retrying operations on functions."""

import pytest
from django.db.models.functions import Now

from gpuplatform.errors import PhaseConflict
from gpuplatform.operations.interventions import operation_cancel, operation_retry
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import Accepted
from gpuplatform.tenancy.selectors import tenant_by_name
from serverless.models import Function
from serverless.requests import FunctionCreate, FunctionScale, FunctionUpdate
from serverless.services.functions import (
    function_create,
    function_deleted,
    function_request_deletion,
    function_scale,
    function_update,
)
from tests.factories.serverless import SPEC, function_row
from tests.fakes.cluster import FakeCluster

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("catalogue")]


def create() -> Operation:
    body = FunctionCreate.parse({"operationID": "create", "requestID": "echo", **SPEC})
    return function_create(tenant=tenant_by_name(), body=body).operation


def update() -> Operation:
    body = FunctionUpdate.parse({"operationID": "change", **SPEC, "image": "echo:2"})
    return function_update(tenant=tenant_by_name(), request_id="echo", body=body).operation


def delete() -> Operation:
    return function_request_deletion(
        tenant=tenant_by_name(), request_id="echo", operation_id="remove"
    ).operation


def fail(operation: Operation) -> Operation:
    Operation.objects.filter(pk=operation.pk).update(
        phase="Failed",
        error_code="internal_error",
        error_retryable=True,
        due_at=None,
        ended_at=Now(),
    )
    return Operation.objects.get(pk=operation.pk)


def retry(operation: Operation) -> Accepted:
    return operation_retry(operation=operation, operation_id="again")


def test_unstarted_create_is_cancelled(cluster: FakeCluster) -> None:
    operation = create()

    operation_cancel(operation=operation, operation_id="cancel")

    assert Operation.objects.get(pk=operation.pk).phase == "Cancelled"
    assert Function.objects.get().deleted_at is not None


def test_update_and_delete_are_not_cancellable(cluster: FakeCluster) -> None:
    function_row("echo")

    for operation in (update(), delete()):
        with pytest.raises(PhaseConflict):
            operation_cancel(operation=operation, operation_id="cancel")


def test_failed_create_is_retried(cluster: FakeCluster) -> None:
    first = fail(create())
    function_deleted(first)

    again = retry(first).operation

    made = Function.objects.get(deleted_at__isnull=True)
    assert (again.object_name, again.payload) == ("echo", first.payload)
    assert (made.operation, made.spec) == (again, SPEC)


def test_failed_update_is_retried_on_same_function(cluster: FakeCluster) -> None:
    row = function_row("echo")

    again = retry(fail(update())).operation

    assert (again.kind, again.object_row) == ("function.update", row.pk)
    assert again.payload["image"].endswith("echo:2")


def test_failed_scale_is_retried(cluster: FakeCluster) -> None:
    row = function_row("echo")
    body = FunctionScale.parse({"operationID": "scale", "minWorkers": 0, "maxWorkers": 4})
    first = function_scale(tenant=tenant_by_name(), request_id="echo", body=body).operation

    again = retry(fail(first)).operation

    assert (again.kind, again.object_row) == ("function.scale", row.pk)
    row.refresh_from_db()
    assert row.spec["maxWorkers"] == 4


def test_delete_is_not_retried_on_another_function_of_same_name(cluster: FakeCluster) -> None:
    function_row("echo")
    first = fail(delete())
    function_deleted(first)
    function_row("echo")

    with pytest.raises(PhaseConflict):
        retry(first)

    assert Function.objects.filter(deletion_requested_at__isnull=True).count() == 1
