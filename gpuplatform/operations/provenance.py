"""Annotations of a resource that identify the operations that created and changed it. Pure.

`manage.py recover` rebuilds operations from them, and a repeated creation finds its object.
"""

import re
from typing import Any, Final

from gpuplatform.formats import names
from gpuplatform.kube.kinds import GROUP, Manifest
from gpuplatform.operations.models import Operation
from gpuplatform.planning.ownership import MANAGER

TENANT_ANNOTATION: Final = f"{GROUP}/tenant"
OPERATION_ID_ANNOTATION: Final = f"{GROUP}/operation-id"
REQUEST_HASH_ANNOTATION: Final = f"{GROUP}/request-hash"
HASH_VERSION_ANNOTATION: Final = f"{GROUP}/hash-version"
APPLIED_OPERATION_ANNOTATION: Final = f"{GROUP}/applied-operation"
"""The id of the last operation that changed the spec. Older operations are not applied."""

_VALID_MARKS: Final = {
    TENANT_ANNOTATION: r"[-a-z0-9]{1,63}",
    OPERATION_ID_ANNOTATION: names.OPERATION_ID,
    REQUEST_HASH_ANNOTATION: r"[0-9a-f]{64}",
    HASH_VERSION_ANNOTATION: r"[0-9]{1,4}",
}
"""Patterns of valid values. A user who can edit the resource can write any value."""


def marks(operation: Operation) -> dict[str, str]:
    """Return the annotations for a resource that `operation` creates."""
    return {
        TENANT_ANNOTATION: operation.tenant.name,
        OPERATION_ID_ANNOTATION: operation.operation_id,
        REQUEST_HASH_ANNOTATION: operation.request_hash,
        HASH_VERSION_ANNOTATION: str(operation.hash_version),
        APPLIED_OPERATION_ANNOTATION: str(operation.pk),
    }


def annotations(resource: Manifest) -> dict[str, Any]:
    """Return the annotations of a resource, an empty dict if it has none."""
    found = resource.get("metadata", {}).get("annotations")
    return found if isinstance(found, dict) else {}


def has_marks(resource: Manifest) -> bool:
    """Return whether `resource` has valid annotations of an operation that created it."""
    found = annotations(resource)
    return all(re.fullmatch(mark, str(found.get(key, ""))) for key, mark in _VALID_MARKS.items())


def bears(resource: Manifest, operation: Operation) -> bool:
    """Return whether the annotations of `resource` name `operation` as its creator."""
    found = annotations(resource)
    wanted = marks(operation)
    return all(
        found.get(key) == wanted[key]
        for key in (TENANT_ANNOTATION, OPERATION_ID_ANNOTATION, REQUEST_HASH_ANNOTATION)
    )


def was_written_by_platform(resource: Manifest) -> bool:
    """Return whether the platform wrote the resource itself, not only its status.

    Source: Kubernetes documentation, "Server-Side Apply", field management.
    """
    managers = resource.get("metadata", {}).get("managedFields") or []
    return any(
        manager.get("manager") == MANAGER and not manager.get("subresource")
        for manager in managers
    )


def applied_operation(resource: Manifest) -> int:
    """Return the id of the last operation that changed `resource`, 0 if it has no valid one."""
    value = str(annotations(resource).get(APPLIED_OPERATION_ANNOTATION, ""))
    return int(value) if value.isdecimal() and len(value) < 19 else 0
