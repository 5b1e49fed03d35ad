"""Changes of custom resources by other clients than the platform, such as `kubectl`. Pure.

Source: Kubernetes documentation, "Server-Side Apply", field management.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from gpuplatform.kube.fields import field, items, text
from gpuplatform.kube.kinds import FIELD_MANAGER, Manifest


@dataclass(frozen=True, slots=True)
class ForeignChange:
    """The last change of the spec by one field manager."""

    manager: str
    time: str
    """The time in RFC 3339 as the API server recorded it."""


def foreign_changes(resource: Manifest) -> Iterator[ForeignChange]:
    """Yield the last change of the spec by each manager other than the platform."""
    for entry in items(resource, "metadata", "managedFields"):
        manager, owns = text(entry, "manager"), field(entry, "fieldsV1")
        if field(entry, "subresource") or manager == FIELD_MANAGER:
            continue
        if isinstance(owns, dict) and "f:spec" in owns:
            yield ForeignChange(manager or "unknown", text(entry, "time"))
