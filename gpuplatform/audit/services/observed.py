"""Records changes in the cluster by other clients than the platform."""

from typing import Any

from django.db.models import Manager

from gpuplatform.audit.core.changes import changed_fields
from gpuplatform.audit.core.managers import foreign_changes
from gpuplatform.audit.models import Outcome
from gpuplatform.audit.services.entries import Entry, entry_insert_once
from gpuplatform.kube.fields import field, number
from gpuplatform.kube.kinds import Manifest
from gpuplatform.tenancy.actor import Actor, ActorKind
from gpuplatform.tenancy.models import Tenant


def changes_observed(resource: Manifest, rows: Manager[Any]) -> None:
    """Record the changes of the spec of a custom resource by clients such as `kubectl`.

    Must be called before the mirror replaces the earlier copy. Each manager has one entry for each
    generation and time of its changes: a repeated event inserts nothing. Kubernetes does not
    record who deletes a resource.

    Args:
        resource: The resource.
        rows: The rows of its kind, with the earlier copy if there is one.
    """
    changes = list(foreign_changes(resource))
    if not changes:
        return
    metadata, generation = resource["metadata"], number(resource, "metadata", "generation")
    copies = rows.filter(uid=metadata["uid"]).values("generation", "spec", "tenant__name")
    known = copies.first() or {"generation": 0, "spec": None, "tenant__name": None}
    # A resource that a client created belongs to the tenant of its namespace.
    place = Tenant.objects.filter(namespace=metadata["namespace"]).values_list("name", flat=True)
    tenant = known["tenant__name"] or place.first() or ""
    fields = (
        changed_fields(known["spec"], field(resource, "spec") or {})
        if known["generation"] < generation
        else []
    )
    for change in changes:
        keys = (
            {"field": "metadata.generation", "to": generation},
            {"field": "metadata.managedFields.time", "to": change.time},
        )
        entry = Entry(
            outcome=Outcome.OBSERVED,
            verb="create" if generation == 1 else "update",
            tenant=tenant,
            kind=resource["kind"],
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata["uid"],
            changes=[*keys, *fields],
            actor=Actor(change.manager, ActorKind.MANAGER),
        )
        entry_insert_once(entry, *keys)
