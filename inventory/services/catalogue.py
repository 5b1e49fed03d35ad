"""Accepts requests to create, change and delete GPU specs.

The catalogue exists in the database only. The transaction that accepts a request also writes the
row; the operation has nothing else to execute.
"""

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
from inventory.selectors import spec_get

SPEC_KIND = "GPUSpec"
"""Object kind of GPU specs in operations. It is not a Kubernetes kind."""

SPEC_CHANGED_TASK: Final = "units.tend_spec"
"""Name of the task that applies a created or changed GPU spec to its stock.

The task belongs to `units`, which this app must not import. If the message is lost, the periodic
top-up does the same.
"""


class SpecOperation(StrEnum):
    """The kinds of operation on GPU specs."""

    CREATE = "gpuspec.create"
    UPDATE = "gpuspec.update"
    DELETE = "gpuspec.delete"


def gpu_spec_create(*, tenant: Tenant, body: GpuSpecCreate) -> Accepted:
    """Add a GPU spec to the catalogue.

    Raises:
        NameConflict: If the catalogue has a GPU spec with this name.
        OperationConflict: If the operationID belongs to another request.
    """

    def prepare(_: Operation) -> int:
        row, is_new = GpuSpec.objects.get_or_create(name=body.name, defaults=body.columns())
        if not is_new:
            msg = f"The catalogue already has a GPU spec '{body.name}'. Change it instead."
            raise NameConflict(msg, details=[FieldError("name", "Is in use.")])
        enqueue_after_commit(SPEC_CHANGED_TASK, row.pk, queue=Queue.PERIODIC)
        return row.pk

    kind, place = SpecOperation.CREATE, (SPEC_KIND, "", body.name)
    request = Request(tenant, body.operation_id, kind, *place, body.payload())
    return operation_accept(request, prepare=prepare)


def gpu_spec_update(
    *, tenant: Tenant, name: str, body: GpuSpecPatch, etag: str | None = None
) -> Accepted:
    """Change a GPU spec. Existing stock and units keep their values.

    If `etag` is specified, only that version of the GPU spec is changed.

    Raises:
        NotFound: If the catalogue has no GPU spec with this name.
        StaleEtag: If the GPU spec is not at version `etag`.
    """

    def prepare(_: Operation) -> int:
        row = spec_get(name, for_update=True)
        if etag not in {None, spec_version(row)}:
            raise stale(f"the GPU spec '{name}'")
        GpuSpec.objects.filter(pk=row.pk).update(updated_at=Now(), **body.columns())
        enqueue_after_commit(SPEC_CHANGED_TASK, row.pk, queue=Queue.PERIODIC)
        return row.pk

    payload = body.payload() | ({} if etag is None else {IF_MATCH: etag})
    kind, place = SpecOperation.UPDATE, (SPEC_KIND, "", name)
    request = Request(tenant, body.operation_id, kind, *place, payload)
    return operation_accept(request, prepare=prepare)


def gpu_spec_delete(*, tenant: Tenant, name: str, operation_id: str) -> Accepted:
    """Delete a disabled GPU spec from the catalogue.

    Raises:
        NotFound: If the catalogue has no GPU spec with this name.
        PhaseConflict: If the GPU spec is enabled.
    """

    def prepare(_: Operation) -> int:
        row = spec_get(name, for_update=True)
        if row.is_enabled:
            msg = f"The GPU spec '{name}' is enabled. Disable it first; this removes its stock."
            raise PhaseConflict(msg)
        row_id = row.pk
        row.delete()
        return row_id

    kind, place = SpecOperation.DELETE, (SPEC_KIND, "", name)
    return operation_accept(Request(tenant, operation_id, kind, *place), prepare=prepare)


def spec_version(row: GpuSpec) -> str:
    """Return the version of a GPU spec, which is used as its ETag."""
    return f"{row.pk}-{row.updated_at.timestamp():.6f}"
