"""Queries of operations."""

from collections.abc import Collection, Sequence
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
from gpuplatform.tenancy.quota import UsageQuery, usage_query
from gpuplatform.tenancy.resources import Resource

OPERATION_UNREAD: Final = tuple(
    f"operation__{field.name}"
    for field in Operation._meta.concrete_fields  # noqa: SLF001 - public API
    if field.name not in {"id", "operation_id"}
)
"""The columns of the operation that lists of resources do not read, for `defer`."""

MAX_SEARCHED: Final = 50_000
"""Number of operations that a search reads. A trigram index would not make it faster, because
generated names are random."""


def operations_of(tenant: Tenant) -> QuerySet[Operation]:
    """Return the operations of a tenant, newest first."""
    rows: QuerySet[Operation] = tenant.operation_set.order_by("-id")
    return rows


def operations_used(tenants: Collection[int]) -> list[UsageQuery]:
    """Return the query for the number of open operations."""
    rows = Operation.objects.filter(tenant__in=tenants, phase__in=OPEN_PHASES)
    return [usage_query(rows, Resource.OPEN_OPERATIONS)]


def operations_with(
    rows: QuerySet[Operation], text: str, *, among: int = MAX_SEARCHED
) -> QuerySet[Operation]:
    """Return the rows whose operationID or object name contains `text`, ignoring case.

    Only the newest `among` operations are searched.
    """
    oldest = Operation.objects.order_by("-id").values("id")[among : among + 1]
    matches = Q(operation_id__icontains=text) | Q(object_name__icontains=text)
    return rows.filter(matches, id__gt=Coalesce(Subquery(oldest), 0))


def operation_get(tenant: Tenant, operation_id: str) -> Operation:
    """Return the operation of a tenant with this operationID.

    Raises:
        NotFound: If the tenant has no such operation.
    """
    operation = operations_of(tenant).filter(operation_id=operation_id).first()
    if operation is None:
        msg = f"The operation '{operation_id}' does not exist."
        raise NotFound(msg)
    return operation


def earlier_operations() -> QuerySet[Operation]:
    """Return the open operations before an operation on the same object, for a subquery of it."""
    return Operation.objects.filter(
        object_kind=OuterRef("object_kind"),
        object_namespace=OuterRef("object_namespace"),
        object_name=OuterRef("object_name"),
        id__lt=OuterRef("id"),
        phase__in=OPEN_PHASES,
    )


def has_open_operations(kind: str, namespace: str, name: str) -> bool:
    """Return whether an accepted operation on the object has not ended."""
    return Operation.objects.filter(
        object_kind=kind, object_namespace=namespace, object_name=name, phase__in=OPEN_PHASES
    ).exists()


def operations_runnable() -> QuerySet[Operation]:
    """Return the open operations without an earlier open operation on the same object."""
    return Operation.objects.filter(phase__in=OPEN_PHASES).exclude(Exists(earlier_operations()))


def operations_due(limit: int, kinds: Sequence[str]) -> list[int]:
    """Return the ids of due operations of these kinds that a worker can claim, oldest first."""
    free = Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lt=Now())
    due = operations_runnable().filter(free, due_at__lte=Now(), kind__in=kinds).order_by("id")
    return list(due.values_list("id", flat=True)[:limit])


def next_after(row_id: int) -> list[int]:
    """Return the id of the next open operation on the object of an ended one, in a list."""
    ended = Operation.objects.filter(id=row_id).exclude(phase__in=OPEN_PHASES)
    waiting = Operation.objects.filter(
        Exists(
            ended.filter(
                object_kind=OuterRef("object_kind"),
                object_namespace=OuterRef("object_namespace"),
                object_name=OuterRef("object_name"),
            )
        ),
        id__gt=row_id,
        phase__in=OPEN_PHASES,
    )
    return list(waiting.order_by("id").values_list("id", flat=True)[:1])


def pending_operations() -> tuple[int, float | None]:
    """Return the number of open operations and the age of the oldest one in seconds, if any."""
    age = ExpressionWrapper(Now() - Min("created_at"), output_field=DurationField())
    totals = Operation.objects.filter(phase__in=OPEN_PHASES).aggregate(count=Count("id"), age=age)
    oldest: timedelta | None = totals["age"]
    return int(totals["count"]), None if oldest is None else oldest.total_seconds()


def operations_between(since: datetime, until: datetime) -> tuple[int, int]:
    """Return the numbers of accepted and of failed operations after `since`, up to `until`."""
    accepted = Operation.objects.filter(created_at__gt=since, created_at__lte=until)
    failed = Operation.objects.filter(
        phase=OperationPhase.FAILED, ended_at__gt=since, ended_at__lte=until
    )
    return accepted.count(), failed.count()


def operation_of(resource: Manifest) -> Operation | None:
    """Return the operation that `resource` names as its creator, or `None` if it has no row."""
    tenant, operation_id = marks_of(resource)
    found = Operation.objects.select_related("tenant")
    return found.filter(tenant__name=tenant, operation_id=operation_id).first()


def is_applied(resource: Manifest, operation: Operation) -> bool:
    """Return whether `operation` or a later operation was applied to `resource`.

    Ids without an operation are ignored: a user who can edit the resource can write any id.
    """
    applied = applied_operation(resource)
    return applied == operation.pk or operation.pk < applied <= newest_operation()


def operations_about(resources: Sequence[Manifest]) -> list[Operation]:
    """Return the operations that created or last changed `resources`, with one query."""
    ids = {_searchable(annotations(one).get(OPERATION_ID_ANNOTATION)) for one in resources}
    applied = {applied_operation(one) for one in resources} - {0}
    about = Q(operation_id__in=ids - {""}) | Q(id__in=applied)
    return list(Operation.objects.select_related("tenant").filter(about))


def makers_among(
    operations: Sequence[Operation], resources: Sequence[Manifest]
) -> dict[str, Operation]:
    """Return the operations among `operations` that created `resources`, by resource UID."""
    by_marks = {(one.tenant.name, one.operation_id): one for one in operations}
    return {
        resource["metadata"]["uid"]: by_marks[marks]
        for resource in resources
        if (marks := marks_of(resource)) in by_marks
    }


def marks_of(resource: Manifest) -> tuple[str, str]:
    """Return the tenant name and the operationID in the annotations, or empty strings."""
    marks = annotations(resource)
    return (
        _searchable(marks.get(TENANT_ANNOTATION)),
        _searchable(marks.get(OPERATION_ID_ANNOTATION)),
    )


def _searchable(mark: object) -> str:
    """Return an annotation as text without NUL, which PostgreSQL does not accept."""
    return "" if mark is None else str(mark).replace("\x00", "")


def is_leftover(resource: Manifest, operation: Operation | None) -> bool:
    """Return whether `resource` is a leftover, which a late write of `operation` created.

    `resource` must be read before `operation`. A resource that a user copied has the annotations
    of the original but is not a leftover: it has another name or was not written by the platform.
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
