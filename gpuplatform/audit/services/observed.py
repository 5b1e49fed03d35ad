"""Records changes in the cluster by other clients than the platform."""

from collections.abc import Mapping
from typing import Any

from gpuplatform.audit.core.changes import changed_fields
from gpuplatform.audit.core.managers import foreign_changes
from gpuplatform.audit.models import Outcome
from gpuplatform.audit.services.entries import Entry, entry_insert_once
from gpuplatform.kube.fields import field, number
from gpuplatform.kube.kinds import Manifest
from gpuplatform.tenancy.actor import Actor, ActorKind


def changes_observed(resource: Manifest, known: Mapping[str, Any] | None) -> None:
    """Record the changes of the spec of a custom resource by clients such as `kubectl`.

    Each manager has one entry for each generation and time of its changes: a repeated event
    inserts nothing. Kubernetes does not record who deletes a resource.

    Args:
        resource: The resource.
        known: The `generation`, `spec` and `tenant__name` of the row with the earlier copy, or
            `None` if the resource is new.
    """
    metadata, generation = resource["metadata"], number(resource, "metadata", "generation")
    is_new = known is None or known["generation"] < generation
    for change in foreign_changes(resource):
        keys = (
            {"field": "metadata.generation", "to": generation},
            {"field": "metadata.managedFields.time", "to": change.time},
        )
        before = None if known is None else known["spec"]
        fields = changed_fields(before, field(resource, "spec") or {}) if is_new else []
        entry = Entry(
            outcome=Outcome.OBSERVED,
            verb="create" if generation == 1 else "update",
            tenant="" if known is None else known["tenant__name"] or "",
            kind=resource["kind"],
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata["uid"],
            changes=[*keys, *fields],
            actor=Actor(change.manager, ActorKind.MANAGER),
        )
        entry_insert_once(entry, *keys)
