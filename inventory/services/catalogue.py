"""Accepts requests to create, change and delete GPU specs.

The catalogue exists in the database only. The transaction that accepts a request also writes the
row; the operation has nothing else to execute.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

from django.db.models.functions import Greatest, Now

from gpuplatform.audit.core.changes import Target
from gpuplatform.errors import FieldError, InvalidSpec, NameConflict, PhaseConflict
from gpuplatform.formats.model import invalid_spec
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import Accepted, Request, operation_accept
from gpuplatform.operations.versions import IF_MATCH, stale
from gpuplatform.queueing import Queue, enqueue_after_commit
from gpuplatform.tenancy.models import Tenant
from gpuplatform.workloads.placement import MAX_LABELS, PRODUCT_LABEL
from gpuplatform.workloads.resources import resources_error
from inventory.models import GpuSpec
from inventory.requests.catalogue import COLUMNS, GpuSpecCreate, GpuSpecPatch
from inventory.selectors import spec_get

SPEC_KIND = "GPUSpec"
"""Object kind of GPU specs in operations. It is not a Kubernetes kind."""

SPEC_CHANGED_TASK: Final = "units.tend_spec"
"""Name of the task that applies a created or changed GPU spec to its stock.

The task belongs to `units`, which this app must not import. If the message is lost, the periodic
top-up does the same.
"""


_POD_FIELDS: Final = frozenset({"cpu", "memory", "gpu", "resourceName", "resources", "placement"})
"""The fields of a unit that come from its GPU spec."""


class SpecOperation(StrEnum):
    """The kinds of operation on GPU specs."""

    CREATE = "gpuspec.create"
    UPDATE = "gpuspec.update"
    DELETE = "gpuspec.delete"


def gpu_spec_create(*, tenant: Tenant, body: GpuSpecCreate) -> Accepted:
    """Add a GPU spec to the catalogue.

    Raises:
        InvalidSpec: If the placement has no space for the label of the GPU product.
        NameConflict: If the catalogue has a GPU spec with this name.
        OperationConflict: If the operationID belongs to another request.
    """

    def prepare(_: Operation) -> int:
        columns = body.columns()
        _check_labels(columns.get("product", ""), columns.get("placement", {}))
        row, is_new = GpuSpec.objects.get_or_create(name=body.name, defaults=columns)
        if not is_new:
            msg = f"The catalogue already has a GPU spec '{body.name}'. Change it instead."
            raise NameConflict(msg, details=[FieldError("name", "Is in use.")])
        enqueue_after_commit(SPEC_CHANGED_TASK, row.pk, queue=Queue.PERIODIC)
        return row.pk

    kind, place = SpecOperation.CREATE, (SPEC_KIND, "", body.name)
    request = Request(tenant, body.operation_id, kind, *place, body.payload())
    return operation_accept(request, prepare=prepare)


def gpu_spec_restore(pod_fields: Mapping[str, Any]) -> GpuSpec | None:
    """Add the GPU spec of a unit to a catalogue that lost it, with the warm target 0.

    `pod_fields` is the spec of the unit. Returns the new row, or `None` if the catalogue has the
    GPU spec or a value is invalid.
    """
    given = {name: value for name, value in pod_fields.items() if name in _POD_FIELDS}
    name = pod_fields.get("specName")
    with suppress(InvalidSpec):
        body = GpuSpecCreate.parse({"gpu": 0, **given, "name": name, "operationID": "restore"})
        row, is_new = GpuSpec.objects.get_or_create(name=body.name, defaults=body.columns())
        return row if is_new else None
    return None


def gpu_spec_update(
    *, tenant: Tenant, name: str, body: GpuSpecPatch, etag: str | None = None
) -> Accepted:
    """Change a GPU spec. Existing stock and units keep their values.

    If `etag` is specified, only that version of the GPU spec is changed.

    Raises:
        NotFound: If the catalogue has no GPU spec with this name.
        StaleEtag: If the GPU spec is not at version `etag`.
        InvalidSpec: If the changed GPU spec is invalid.
    """

    def prepare(operation: Operation) -> int:
        row, columns = spec_get(name, for_update=True), body.columns()
        before = {field: getattr(row, COLUMNS[field]) for field in body.payload()}
        operation.target = Target(before=before)
        if etag not in {None, spec_version(row)}:
            raise stale(f"the GPU spec '{name}'")
        error = resources_error(
            columns.get("resource_name", row.resource_name),
            columns.get("resources", row.resources),
        )
        if error:
            raise invalid_spec([error])
        _check_labels(columns.get("product", row.product), columns.get("placement", row.placement))
        GpuSpec.objects.filter(pk=row.pk).update(updated_at=Now(), **columns)
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


def _check_labels(product: str, placement: Mapping[str, Any]) -> None:
    """Check that the node selector of pods, which contains the GPU product, has a valid size.

    Raises:
        InvalidSpec: If it has too many labels.
    """
    selector = placement.get("nodeSelector", {})
    if product and len(selector.keys() | {PRODUCT_LABEL}) > MAX_LABELS:
        message = f"Must have at most {MAX_LABELS} labels, including the label of the GPU product."
        raise invalid_spec([FieldError("placement.nodeSelector", message)])


def holds_pause(name: str, seconds: float) -> None:
    """Hold no free stock of a GPU spec for the head of its queue for some seconds.

    A longer pause is kept: otherwise, the end of a short hold would shorten the pause after a
    long one.
    """
    until = Greatest("hold_pause_until", Now() + timedelta(seconds=seconds))
    GpuSpec.objects.filter(name=name).update(hold_pause_until=until)


def holds_resume(name: str) -> None:
    """End the pause of the holds of a GPU spec."""
    GpuSpec.objects.filter(name=name).update(hold_pause_until=None)


def spec_version(row: GpuSpec) -> str:
    """Return the version of a GPU spec, which is used as its ETag."""
    return f"{row.pk}-{row.updated_at.timestamp():.6f}"
