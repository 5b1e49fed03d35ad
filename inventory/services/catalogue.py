"""Creates, changes and deletes GPU specs.

The catalogue exists in the database only: the row is written in the transaction that accepts the
request, and the operation needs no execution.
"""

from dataclasses import replace
from enum import StrEnum
from typing import Final

from django.db.models.functions import Now

from gpuplatform.errors import FieldError, NameConflict, PhaseConflict
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import Accepted, Request, operation_accept
from gpuplatform.operations.versions import IF_MATCH, stale
from gpuplatform.queueing import Queue, enqueue_after_commit
from gpuplatform.tenancy.models import Tenant
from inventory.models import GpuSpec
from inventory.requests.catalogue import GpuSpecCreate, GpuSpecPatch
from inventory.selectors import spec_missing

SPEC_KIND = "GPUSpec"
"""Kind of the catalogue's entries in operations; no Kubernetes kind has this name."""


SPEC_CHANGED_TASK: Final = "units.tend_spec"
"""The task of `units` that applies a created or changed spec to its stock. Sent by name: this app
does not import `units`; the periodic top-up does the same if the message is lost."""


class SpecOperation(StrEnum):
    """The kinds of operation on GPU specs."""

    CREATE = "gpuspec.create"
    UPDATE = "gpuspec.update"
    DELETE = "gpuspec.delete"


def gpu_spec_create(*, tenant: Tenant, body: GpuSpecCreate) -> Accepted:
    """Add a spec to the catalogue.

    Raises:
        NameConflict: the catalogue has a spec of that name.
        OperationConflict: the operationID belongs to another request.
    """

    def prepare(_: Operation) -> int:
        row, is_new = GpuSpec.objects.get_or_create(name=body.name, defaults=body.columns())
        if not is_new:
            msg = f"The catalogue already has a GPU spec '{body.name}'. Change it instead."
            raise NameConflict(msg, details=[FieldError("name", "Is in use.")])
        enqueue_after_commit(SPEC_CHANGED_TASK, row.pk, queue=Queue.PERIODIC)
        return row.pk

    request = _request(tenant, SpecOperation.CREATE, body.operation_id, body.name)
    return operation_accept(replace(request, payload=body.payload()), prepare=prepare)


def gpu_spec_update(
    *, tenant: Tenant, name: str, body: GpuSpecPatch, etag: str | None = None
) -> Accepted:
    """Change a spec, with `etag` exactly that version; existing stock and units keep their values.

    Raises:
        NotFound: the catalogue has no spec of that name.
        StaleEtag: it was changed after the caller read it.
    """

    def prepare(_: Operation) -> int:
        row = _locked(name)
        if etag not in {None, spec_version(row)}:
            raise stale(f"the GPU spec '{name}'")
        GpuSpec.objects.filter(pk=row.pk).update(updated_at=Now(), **body.columns())
        enqueue_after_commit(SPEC_CHANGED_TASK, row.pk, queue=Queue.PERIODIC)
        return row.pk

    request = _request(tenant, SpecOperation.UPDATE, body.operation_id, name)
    payload = body.payload() | ({} if etag is None else {IF_MATCH: etag})
    return operation_accept(replace(request, payload=payload), prepare=prepare)


def gpu_spec_delete(*, tenant: Tenant, name: str, operation_id: str) -> Accepted:
    """Delete a disabled spec from the catalogue.

    Raises:
        NotFound: the catalogue has no spec of that name.
        PhaseConflict: it is enabled.
    """

    def prepare(_: Operation) -> int:
        row = _locked(name)
        if row.is_enabled:
            msg = f"The GPU spec '{name}' is enabled. Disable it first; its stock is then removed."
            raise PhaseConflict(msg)
        row_id = row.pk
        row.delete()
        return row_id

    request = _request(tenant, SpecOperation.DELETE, operation_id, name)
    return operation_accept(request, prepare=prepare)


def spec_version(row: GpuSpec) -> str:
    """Return the name of a version of a spec."""
    return f"{row.pk}-{row.updated_at.timestamp():.6f}"


def _request(tenant: Tenant, kind: SpecOperation, operation_id: str, name: str) -> Request:
    return Request(tenant, operation_id, kind, SPEC_KIND, "", name)


def _locked(name: str) -> GpuSpec:
    """Return the entry, locked, so that its changes are accepted one after the other."""
    found = GpuSpec.objects.select_for_update().filter(name=name).first()
    if found is None:
        raise spec_missing(name)
    return found
