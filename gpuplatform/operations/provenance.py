"""The marks that an operation leaves on the resource it made, and how to read them. Pure.

From them `manage.py recover` rebuilds operations, and a repeated create recognises its own.
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
"""The number of the last operation that changed the spec; an older one is not applied over it."""

_SOUND_MARKS: Final = {
    TENANT_ANNOTATION: r"[-a-z0-9]{1,63}",
    OPERATION_ID_ANNOTATION: names.OPERATION_ID,
    REQUEST_HASH_ANNOTATION: r"[0-9a-f]{64}",
    HASH_VERSION_ANNOTATION: r"[0-9]{1,4}",
}
"""Anybody with rights on the resource can write there what no row can hold."""


def marks(operation: Operation) -> dict[str, str]:
    """Return the annotations of a resource that `operation` makes."""
    return {
        TENANT_ANNOTATION: operation.tenant.name,
        OPERATION_ID_ANNOTATION: operation.operation_id,
        REQUEST_HASH_ANNOTATION: operation.request_hash,
        HASH_VERSION_ANNOTATION: str(operation.hash_version),
        APPLIED_OPERATION_ANNOTATION: str(operation.pk),
    }


def annotations(resource: Manifest) -> dict[str, Any]:
    """Return the annotations; empty where there are none."""
    found = resource.get("metadata", {}).get("annotations")
    return found if isinstance(found, dict) else {}


def has_marks(resource: Manifest) -> bool:
    """Say whether an operation made `resource`; marks that none can have do not count."""
    found = annotations(resource)
    return all(re.fullmatch(mark, str(found.get(key, ""))) for key, mark in _SOUND_MARKS.items())


def bears(resource: Manifest, operation: Operation) -> bool:
    """Say whether `operation` made `resource`."""
    found = annotations(resource)
    wanted = marks(operation)
    return all(
        found.get(key) == wanted[key]
        for key in (TENANT_ANNOTATION, OPERATION_ID_ANNOTATION, REQUEST_HASH_ANNOTATION)
    )


def was_written_by_platform(resource: Manifest) -> bool:
    """Say whether a worker wrote the object itself, as against its status only.

    Source: Kubernetes documentation, "Server-Side Apply", field management.
    """
    managers = resource.get("metadata", {}).get("managedFields") or []
    return any(
        manager.get("manager") == MANAGER and not manager.get("subresource")
        for manager in managers
    )


def applied_operation(resource: Manifest) -> int:
    """Return the number of the last operation that changed `resource`; 0 if none says so."""
    number = str(annotations(resource).get(APPLIED_OPERATION_ANNOTATION, ""))
    return int(number) if number.isdecimal() and len(number) < 19 else 0
