"""Asking once more for what failed, through the services that its caller came by."""

from gpuplatform.operations.registry import RetryRequest
from gpuplatform.operations.services import Accepted
from serverless.requests import FunctionCreate, FunctionScale, FunctionUpdate
from serverless.services import (
    function_create,
    function_request_deletion,
    function_scale,
    function_update,
)


def create_again(again: RetryRequest) -> Accepted:
    """Ask for a function of that name."""
    body = {**again.payload(), "requestID": again.failed.object_name}
    return function_create(tenant=again.failed.tenant, asked=FunctionCreate.parse(body))


def update_again(again: RetryRequest) -> Accepted:
    """Ask for the same change of the same function."""
    failed, asked = again.failed, FunctionUpdate.parse(again.payload())
    accepted = function_update(tenant=failed.tenant, request_id=failed.object_name, asked=asked)
    return again.of_same_object(accepted)


def scale_again(again: RetryRequest) -> Accepted:
    """Ask for the same limits of the same function."""
    failed, asked = again.failed, FunctionScale.parse(again.payload())
    accepted = function_scale(tenant=failed.tenant, request_id=failed.object_name, asked=asked)
    return again.of_same_object(accepted)


def delete_again(again: RetryRequest) -> Accepted:
    """Ask for the deletion of the same function."""
    accepted = function_request_deletion(
        tenant=again.failed.tenant,
        request_id=again.failed.object_name,
        operation_id=again.operation_id,
    )
    return again.of_same_object(accepted)
