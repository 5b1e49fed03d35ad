"""Cancelling and retrying what is about functions."""

import pytest
from django.db.models.functions import Now

from gpuplatform.errors import PhaseConflict
from gpuplatform.operations.interventions import operation_cancel, operation_retry
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import Accepted
from gpuplatform.tenancy.selectors import tenant_by_name
from serverless.models import Function
from serverless.requests import FunctionCreate, FunctionScale, FunctionUpdate
from serverless.services import (
    function_create,
    function_request_deletion,
    function_scale,
    function_unmade,
    function_update,
)
from tests.factories.serverless import SPEC, function_row
from tests.fakes.cluster import FakeCluster

pytestmark = pytest.mark.django_db


def create() -> Operation:
    body = {"operationID": "make", "requestID": "echo", **SPEC}
    asked = FunctionCreate.parse(body)
    return function_create(tenant=tenant_by_name(), asked=asked).operation


def update() -> Operation:
    asked = FunctionUpdate.parse({"operationID": "change", **SPEC, "image": "echo:2"})
    return function_update(tenant=tenant_by_name(), request_id="echo", asked=asked).operation


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


def test_a_create_that_no_worker_has_taken_is_cancelled(cluster: FakeCluster) -> None:
    operation = create()

    operation_cancel(operation=operation, operation_id="cancel")

    assert Operation.objects.get(pk=operation.pk).phase == "Cancelled"
    assert Function.objects.get().deleted_at is not None


def test_a_change_and_a_deletion_are_not_taken_back(cluster: FakeCluster) -> None:
    function_row("echo")

    for operation in (update(), delete()):
        with pytest.raises(PhaseConflict):
            operation_cancel(operation=operation, operation_id="cancel")


def test_a_create_that_failed_is_retried(cluster: FakeCluster) -> None:
    first = fail(create())
    function_unmade(first)

    again = retry(first).operation

    made = Function.objects.get(deleted_at__isnull=True)
    assert (again.object_name, again.payload) == ("echo", first.payload)
    assert (made.operation, made.spec) == (again, SPEC)


def test_a_change_that_failed_is_retried_on_the_same_function(cluster: FakeCluster) -> None:
    row = function_row("echo")

    again = retry(fail(update())).operation

    assert (again.kind, again.object_row) == ("function.update", row.pk)
    assert again.payload["image"].endswith("echo:2")


def test_other_limits_that_failed_are_asked_for_again(cluster: FakeCluster) -> None:
    row = function_row("echo")
    asked = FunctionScale.parse({"operationID": "scale", "minWorkers": 0, "maxWorkers": 4})
    first = function_scale(tenant=tenant_by_name(), request_id="echo", asked=asked).operation

    again = retry(fail(first)).operation

    assert (again.kind, again.object_row) == ("function.scale", row.pk)
    row.refresh_from_db()
    assert row.spec["maxWorkers"] == 4


def test_a_deletion_is_not_retried_on_another_function_of_that_name(cluster: FakeCluster) -> None:
    function_row("echo")
    first = fail(delete())
    function_unmade(first)
    function_row("echo")

    with pytest.raises(PhaseConflict):
        retry(first)

    assert Function.objects.filter(deletion_requested_at__isnull=True).count() == 1
