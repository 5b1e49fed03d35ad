"""Rebuilds the rows and operations of units in both roles from the cluster.

Called only by `manage.py recover`, while no process of the platform is running.
"""

from collections.abc import Iterator, Mapping, Sequence

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.fields import field, number
from gpuplatform.kube.kinds import GPU_UNIT, Manifest
from gpuplatform.operations.consistency import full_name
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.operations.provenance import (
    annotations,
    applied_operation,
    has_marks,
    was_written_by_platform,
)
from gpuplatform.operations.selectors import operation_of
from gpuplatform.operations.services import operation_rebuild
from gpuplatform.tenancy.models import Tenant
from gpuplatform.usage.services.intervals import intervals_recover
from gpuplatform.usage.services.records import records_begin_epoch
from inventory.models import GpuSpec
from inventory.services.catalogue import gpu_spec_restore
from units.core.groups import MAX_SIZE, group_columns
from units.core.names import STOCK_ORDINAL_ANNOTATION, STOCK_REPLICAS_ANNOTATION
from units.core.sources import SourceReference, source_of
from units.makers import is_made_by, is_unit_leftover
from units.mirror import UNIT_MIRROR, unit_adopted, unit_gone
from units.models import RELEASED, GpuUnit
from units.phases import UnitRole, role_of
from units.pods_seen import pods_expected
from units.services.names import GROUP_KIND, UnitOperation
from units.services.usage import use_of

_MAX_COUNT = 100_000


def recover_units(cluster: Cluster, *, dry_run: bool) -> Iterator[str]:
    """Import all units of the cluster; yield a line for each change and inconsistency.

    A stock unit that a unit names as its source is recorded as consumed by that unit.

    Raises:
        ClusterError: If the cluster cannot be read; nothing is changed then.
    """
    listing = cluster.list(GPU_UNIT)
    units = sorted(listing.items, key=lambda unit: unit["metadata"]["creationTimestamp"])
    rows = GpuUnit.objects.exclude(uid="")
    known = {uid: closed is None for uid, closed in rows.values_list("uid", "deleted_at")}
    with transaction.atomic():
        if not dry_run:
            # Resource versions of different clusters cannot be compared.
            GpuUnit.objects.filter(deleted_at__isnull=True).update(resource_version=0)
        for unit in units:
            yield from _recover_unit(unit, known, dry_run=dry_run)
        yield from _recover_sources(units, dry_run=dry_run)
        imported = [unit for unit in units if unit["metadata"]["uid"] not in known]
        yield from _recover_specs(imported, dry_run=dry_run)
        if not dry_run:
            UNIT_MIRROR.listed(listing)
            _recover_usage(units)
            # Their pods may hold GPUs that an older database does not count.
            live = GpuUnit.objects.filter(role=UnitRole.ACTIVE, deleted_at__isnull=True)
            pods_expected(live.exclude(uid="").exclude(RELEASED))
    missing = GpuUnit.objects.filter(deleted_at__isnull=True).exclude(uid="")
    for row in missing.exclude(uid__in={unit["metadata"]["uid"] for unit in units}):
        yield f"{row}: not in the cluster; its row will be closed"


def _recover_unit(unit: Manifest, known: Mapping[str, bool], *, dry_run: bool) -> Iterator[str]:
    """Recover one unit.

    `known` contains the UIDs that have a row, with `True` if the row is open.
    """
    name, operation = full_name(unit), operation_of(unit)
    if not has_marks(unit):
        yield f"{name}: not created by an operation; imported without one"
        operation = None
    elif operation is None:
        yield f"{name}: its operation is rebuilt from its annotations"
        operation = None if dry_run else _rebuild(unit)
    if unit["metadata"]["uid"] in known:
        if not known[unit["metadata"]["uid"]]:
            yield from _reopen(unit, dry_run=dry_run)
        return
    if operation is not None and operation.phase in OPEN_PHASES:
        yield f"{name}: its operation is open and continues with it"
        return
    if is_unit_leftover(unit, operation):
        yield f"{name}: a leftover of an ended operation; it will be deleted"
        return
    yield f"{name}: imported into the database"
    if not dry_run and _adopt(unit, operation) is None:
        yield f"{name}: another row has its name; the next reconciliation imports it"


def _recover_specs(units: Sequence[Manifest], *, dry_run: bool) -> Iterator[str]:
    """Add the GPU specs of units that the platform created to a catalogue that lost them.

    The newest unit of a GPU spec has its latest values.
    """
    known = set(GpuSpec.objects.values_list("name", flat=True))
    for unit in reversed(units):
        spec = field(unit, "spec") or {}
        name = spec.get("specName")
        if name in known or not isinstance(name, str) or not has_marks(unit):
            continue
        known.add(name)
        if dry_run or gpu_spec_restore(spec):
            yield f"GPU spec {name}: added to the catalogue from {full_name(unit)}"


def _reopen(unit: Manifest, *, dry_run: bool) -> Iterator[str]:
    name = full_name(unit)
    yield f"{name}: its row was closed; it is opened again"
    if not dry_run and not UNIT_MIRROR.reopened(unit, unit_gone):
        yield f"{name}: an open operation uses its name; run recover again when it has ended"


def _rebuild(unit: Manifest) -> Operation:
    metadata = unit["metadata"]
    if group := group_columns(unit.get("spec"))["group_name"]:
        total, kind = number(unit, "spec", "group", "size") or 1, UnitOperation.GROUP_CREATE
        return operation_rebuild(
            unit, kind=kind, object_kind=GROUP_KIND, batch=group, total=min(total, MAX_SIZE)
        )
    if role_of(metadata["namespace"]) == UnitRole.ACTIVE:
        return operation_rebuild(unit, kind=UnitOperation.CREATE)
    batch = metadata["name"].rpartition("-")[0] or metadata["name"]
    total = _count(unit, STOCK_REPLICAS_ANNOTATION) or 1
    return operation_rebuild(unit, kind=UnitOperation.SEED, batch=batch, total=total)


def _adopt(unit: Manifest, operation: Operation | None) -> int | None:
    if role_of(unit["metadata"]["namespace"]) == UnitRole.ACTIVE:
        is_its = operation is not None and is_made_by(unit, operation)
        return unit_adopted(unit, operation if is_its else None)
    ordinal = _count(unit, STOCK_ORDINAL_ANNOTATION) or None
    return unit_adopted(unit, operation, tenant=None, ordinal=ordinal)


def _count(unit: Manifest, annotation: str) -> int:
    text = str(annotations(unit).get(annotation, ""))
    is_valid = text.isdecimal() and text.isascii() and len(text) < 7
    return min(int(text), _MAX_COUNT) if is_valid else 0


def _recover_sources(units: Sequence[Manifest], *, dry_run: bool) -> Iterator[str]:
    consumers: dict[str, str] = {}
    for unit in units:
        source, name = source_of(unit), full_name(unit)
        if source is None or not _is_sourced(unit):
            continue
        if source.uid in consumers:
            yield f"{name}: names the same source '{source.name}' as {consumers[source.uid]}"
            continue
        consumers[source.uid] = name
        operation = _open_operation(unit)
        if operation is None:
            yield from _recover_source(unit, source, dry_run=dry_run)
        else:
            yield from _recover_claim(unit, source, operation, dry_run=dry_run)


def _is_sourced(unit: Manifest) -> bool:
    """Return whether a worker created `unit` for an operation that is open or has succeeded."""
    if role_of(unit["metadata"]["namespace"]) == UnitRole.STOCK or not has_marks(unit):
        return False
    creator = operation_of(unit)
    is_its = creator is None or creator.phase in OPEN_PHASES or is_made_by(unit, creator)
    return is_its and was_written_by_platform(unit)


def _open_operation(unit: Manifest) -> Operation | None:
    """Return the open operation that created `unit` or was applied to it last, or `None`."""
    creator = operation_of(unit)
    if creator is not None and creator.phase in OPEN_PHASES:
        return creator
    about = Operation.objects.filter(id=applied_operation(unit), phase__in=OPEN_PHASES)
    return about.first()


def _recover_claim(
    unit: Manifest, source: SourceReference, operation: Operation, *, dry_run: bool
) -> Iterator[str]:
    """Claim the source of `unit` for its open operation, whose end consumes the source."""
    rows = GpuUnit.objects.filter(_of_source(source), role=UnitRole.STOCK, consumed_by="")
    row = rows.order_by("-uid").first()
    if row is None or row.claimed_by_id == operation.pk:
        return
    yield f"{row}: claimed for {full_name(unit)}"
    if not dry_run:
        if operation.kind != UnitOperation.GROUP_CREATE:  # A group claims several.
            GpuUnit.objects.filter(claimed_by=operation).update(claimed_by=None)
        GpuUnit.objects.filter(pk=row.pk).update(uid=source.uid, claimed_by=operation)


def _of_source(source: SourceReference) -> Q:
    """Return the condition that matches the row of a source, even if the row has no UID yet."""
    return Q(uid=source.uid) | Q(uid="", name=source.name, deleted_at__isnull=True)


def _recover_source(unit: Manifest, source: SourceReference, *, dry_run: bool) -> Iterator[str]:
    """Record that `unit` consumed its source."""
    uid = unit["metadata"]["uid"]
    rows = GpuUnit.objects.filter(_of_source(source), role=UnitRole.STOCK).order_by("-uid")
    row = rows.first()
    if row is None or row.consumed_by == uid:
        return
    if row.consumed_by:
        yield f"{full_name(unit)}: its source '{source.name}' was consumed by another unit"
        return
    yield f"{row}: consumed by {full_name(unit)}"
    if not dry_run:
        GpuUnit.objects.filter(pk=row.pk).update(
            uid=source.uid, claimed_by=None, consumed_by=uid, consumed_at=Now(), due_at=Now()
        )


def _recover_usage(units: Sequence[Manifest]) -> None:
    """Close the usage intervals of lost units, and open the missing intervals of other units.

    An interval that is opened is empty. The next observation of a unit that is stopped closes it.
    """
    tenants = dict(Tenant.objects.values_list("namespace", "pk"))
    uses, named = [], set()
    for unit in units:
        source, tenant = source_of(unit), tenants.get(unit["metadata"]["namespace"])
        if source is None or tenant is None:
            continue
        named.add(source.uid)
        # The row of a source that was deleted can be lost. Any other row decides.
        others = GpuUnit.objects.filter(uid=source.uid).exclude(
            consumed_by=unit["metadata"]["uid"]
        )
        if _is_sourced(unit) and not others.exists() and (use := use_of(unit, tenant)):
            uses.append(use)
    intervals_recover(uses, named)
    records_begin_epoch()
