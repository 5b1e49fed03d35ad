"""Which operation the row of a discovered resource belongs to. Called by the apps' mirrors."""

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
    """Return tenant and operation of the row for a resource that has none.

    None where it gets no row: its operation is open and creates the row itself, or a late write
    of an ended operation created the resource. A copy that a person created has the annotations
    of the original, and no operation.

    Args:
        resource: the resource, read before its operation.
        is_left: whether a late write created it.
        is_single: whether an operation on its kind creates exactly one resource.
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
