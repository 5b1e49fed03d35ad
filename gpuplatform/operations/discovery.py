"""Finds the operation that created a discovered resource. Called by the mirrors of the apps."""

from collections.abc import Callable, Mapping
from typing import Any

from gpuplatform.kube.kinds import Manifest
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.operations.selectors import is_leftover, operation_of


def was_recorded_by(resource: Manifest, operation: Operation) -> bool:
    """Return whether the operation recorded the UID of `resource` when it succeeded."""
    return bool(operation.object_uid == resource["metadata"]["uid"])


def discovered_columns(
    resource: Manifest,
    *,
    is_left: Callable[[Manifest, Operation | None], bool] = is_leftover,
    is_own: Callable[[Manifest, Operation], bool] = was_recorded_by,
) -> Mapping[str, Any] | None:
    """Return the columns `tenant` and `operation` of the new row of a resource without a row.

    Returns `None` if the resource gets no row: its operation is open and creates the row itself,
    or the resource is a leftover of an ended operation. A resource that a user copied has the
    annotations of the original; its operation is `None`.

    Args:
        resource: The resource, read before its operation.
        is_left: Returns whether the resource is a leftover of the operation.
        is_own: Returns whether the operation, if it succeeded, created exactly this resource.
    """
    operation = operation_of(resource)
    if operation is not None and operation.phase in OPEN_PHASES:
        return None
    if is_left(resource, operation):
        return None
    if operation is not None and not is_own(resource, operation):
        operation = None
    return {"tenant": operation.tenant if operation else None, "operation": operation}
