"""Finds the operation that created a discovered resource. Called by the mirrors of the apps."""

from collections.abc import Callable, Mapping
from typing import Any

from gpuplatform.kube.kinds import Manifest
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.operations.selectors import is_leftover, operation_of


def discovered_columns(
    resource: Manifest,
    *,
    is_left: Callable[[Manifest, Operation | None], bool] = is_leftover,
    is_single: bool = True,
) -> Mapping[str, Any] | None:
    """Return the columns `tenant` and `operation` of the new row of a resource without a row.

    Returns `None` if the resource gets no row: its operation is open and creates the row itself,
    or the resource is a leftover of an ended operation. A resource that a user copied has the
    annotations of the original; its operation is `None`.

    Args:
        resource: The resource, read before its operation.
        is_left: Returns whether the resource is a leftover of the operation.
        is_single: Whether an operation on this kind of resource creates exactly one resource.
    """
    operation = operation_of(resource)
    if operation is not None and operation.phase in OPEN_PHASES:
        return None
    if is_left(resource, operation):
        return None
    is_own = operation is not None and operation.object_uid == resource["metadata"]["uid"]
    if not (is_own and is_single):
        operation = None
    return {"tenant": operation.tenant if operation else None, "operation": operation}
