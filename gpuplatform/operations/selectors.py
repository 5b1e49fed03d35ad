"""Reading operations."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from django.db.models import (
    Count,
    DurationField,
    Exists,
    ExpressionWrapper,
    Min,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
)
from django.db.models.functions import Coalesce, Now

from gpuplatform.errors import NotFound
from gpuplatform.kube.kinds import Manifest
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import ENDED_PHASES, OPEN_PHASES, OperationPhase
from gpuplatform.operations.provenance import (
    OPERATION_ID_ANNOTATION,
    TENANT_ANNOTATION,
    annotations,
    applied_operation,
    was_written_by_platform,
)
from gpuplatform.reconciliation.epoch import newest_operation
from gpuplatform.tenancy.models import Tenant

MOST_SEARCHED: Final = 50_000
"""So many jobs are looked through for a text: the names that are made up are random, and among
those an index of trigrams finds nothing faster."""


def operations_of(tenant: Tenant) -> QuerySet[Operation]:
    """Return a tenant's operations, newest first."""
    return Operation.objects.filter(tenant=tenant).select_related("tenant").order_by("-id")


def operations_with(
    rows: QuerySet[Operation], text: str, *, among: int = MOST_SEARCHED
) -> QuerySet[Operation]:
    """Return those that have `text` in operationID or object's name, of the newest of all."""
    older = Operation.objects.order_by("-id").values("id")[among : among + 1]
    has_it = Q(operation_id__contains=text) | Q(object_name__contains=text)
    return rows.filter(has_it, id__gt=Coalesce(Subquery(older), 0))


def operation_get(tenant: Tenant, operation_id: str) -> Operation:
    """Return one operation.

    Raises:
        NotFound: this tenant has none of that id.
    """
    operation = operations_of(tenant).filter(operation_id=operation_id).first()
    if operation is None:
        msg = f"There is no operation '{operation_id}'."
        raise NotFound(msg)
    return operation


def operations_runnable() -> QuerySet[Operation]:
    """Return open operations that no earlier open one of the same object stands before."""
    earlier = Operation.objects.filter(
        object_kind=OuterRef("object_kind"),
        object_namespace=OuterRef("object_namespace"),
        object_name=OuterRef("object_name"),
        id__lt=OuterRef("id"),
        phase__in=OPEN_PHASES,
    )
    return Operation.objects.filter(phase__in=OPEN_PHASES).exclude(Exists(earlier))


def operations_due(limit: int, kinds: Sequence[str]) -> list[int]:
    """Return the numbers of operations of these kinds that a worker should take, oldest first."""
    free = Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lt=Now())
    due = operations_runnable().filter(free, due_at__lte=Now(), kind__in=kinds).order_by("id")
    return list(due.values_list("id", flat=True)[:limit])


def next_after(operation_number: int) -> list[int]:
    """Return the operation that waited behind this ended one of the same object, if any."""
    ended = Operation.objects.filter(id=operation_number).exclude(phase__in=OPEN_PHASES)
    behind = Operation.objects.filter(
        Exists(
            ended.filter(
                object_kind=OuterRef("object_kind"),
                object_namespace=OuterRef("object_namespace"),
                object_name=OuterRef("object_name"),
            )
        ),
        id__gt=operation_number,
        phase__in=OPEN_PHASES,
    )
    return list(behind.order_by("id").values_list("id", flat=True)[:1])


def pending_operations() -> tuple[int, float | None]:
    """Return how many operations are open, and the age of the oldest in seconds."""
    age = ExpressionWrapper(Now() - Min("created_at"), output_field=DurationField())
    totals = Operation.objects.filter(phase__in=OPEN_PHASES).aggregate(count=Count("id"), age=age)
    oldest: timedelta | None = totals["age"]
    return int(totals["count"]), None if oldest is None else oldest.total_seconds()


def operations_between(since: datetime, until: datetime) -> tuple[int, int]:
    """Return the number of operations accepted, and failed, after `since` and up to `until`."""
    accepted = Operation.objects.filter(created_at__gt=since, created_at__lte=until)
    failed = Operation.objects.filter(
        phase=OperationPhase.FAILED, ended_at__gt=since, ended_at__lte=until
    )
    return accepted.count(), failed.count()


def operation_of(resource: Manifest) -> Operation | None:
    """Return the operation whose marks `resource` bears, if this database knows it."""
    tenant, operation_id = marks_of(resource)
    found = Operation.objects.select_related("tenant")
    return found.filter(tenant__name=tenant, operation_id=operation_id).first()


def operations_of_resources(resources: Sequence[Manifest]) -> dict[str, Operation]:
    """Return the operations whose marks `resources` bear, by the resource's UID."""
    return makers_among(operations_about(resources), resources)


def is_applied(resource: Manifest, operation: Operation) -> bool:
    """Say whether `operation`, or a later one that replaces it, was applied to `resource`.

    Anybody with rights on it can write a number there: one that no operation had says nothing.
    """
    applied = applied_operation(resource)
    return applied == operation.pk or operation.pk < applied <= newest_operation()


def operations_about(resources: Sequence[Manifest]) -> list[Operation]:
    """Return what made `resources`, by their marks, or was applied to them last; one query."""
    ids = {_searchable(annotations(one).get(OPERATION_ID_ANNOTATION)) for one in resources}
    applied = {applied_operation(one) for one in resources} - {0}
    about = Q(operation_id__in=ids - {""}) | Q(id__in=applied)
    return list(Operation.objects.select_related("tenant").filter(about))


def makers_among(
    operations: Sequence[Operation], resources: Sequence[Manifest]
) -> dict[str, Operation]:
    """Return those whose marks `resources` bear, by the resource's UID."""
    by_marks = {(one.tenant.name, one.operation_id): one for one in operations}
    return {
        resource["metadata"]["uid"]: by_marks[marks]
        for resource in resources
        if (marks := marks_of(resource)) in by_marks
    }


def marks_of(resource: Manifest) -> tuple[str, str]:
    """Return the tenant's name and the operationID that `resource` bears; empty where none."""
    marks = annotations(resource)
    return (
        _searchable(marks.get(TENANT_ANNOTATION)),
        _searchable(marks.get(OPERATION_ID_ANNOTATION)),
    )


def _searchable(mark: object) -> str:
    """Return a mark as text; PostgreSQL has none with NUL, which a person may write there."""
    return "" if mark is None else str(mark).replace("\x00", "")


def is_leftover(resource: Manifest, operation: Operation | None) -> bool:
    """Say whether a late write made `resource`: its operation ended, and with another object.

    `resource` has to be read first and `operation` second. A copy that a person made, which bears
    the marks of the original, is none: the platform did not write it, or it has another name.
    """
    metadata = resource["metadata"]
    return (
        operation is not None
        and operation.phase in ENDED_PHASES
        and operation.object_uid != metadata["uid"]
        and operation.object_name == metadata["name"]
        and operation.object_namespace == metadata["namespace"]
        and was_written_by_platform(resource)
    )
