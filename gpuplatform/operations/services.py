"""Accepts operations. The only module that inserts operation rows.

The services of the apps call it; views do not. An operation is accepted in one transaction without
a network call, which also writes the app's row of the object.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.db.models import Model, QuerySet
from django.db.models.functions import Now
from psycopg.errors import UniqueViolation

from gpuplatform.api.trace_id import request_trace_id
from gpuplatform.audit.core.changes import changed_fields
from gpuplatform.audit.models import Outcome
from gpuplatform.audit.services.entries import Entry, entry_insert
from gpuplatform.clock import parse_rfc3339
from gpuplatform.errors import FieldError, NameConflict, OperationConflict, RecoveryNeeded
from gpuplatform.kube.errors import ClusterUnavailable
from gpuplatform.kube.kinds import Manifest
from gpuplatform.kube.modes import get_cluster
from gpuplatform.locks import take_turn, take_turn_sharing
from gpuplatform.operations.hashing import HASH_VERSION, request_hash
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import ENDED_PHASES, OPEN_PHASES, OperationPhase
from gpuplatform.operations.provenance import (
    HASH_VERSION_ANNOTATION,
    OPERATION_ID_ANNOTATION,
    REQUEST_HASH_ANNOTATION,
    TENANT_ANNOTATION,
    annotations,
)
from gpuplatform.operations.versions import IF_MATCH
from gpuplatform.queueing import Queue, Urgency, enqueue_after_commit
from gpuplatform.reconciliation import gate
from gpuplatform.tenancy.actor import current_actor
from gpuplatform.tenancy.locks import share_tenant
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.phases import TenantPhase
from gpuplatform.tenancy.quota import QuotaRequest, Usage, change_turn, limits_of, quota_check
from gpuplatform.tenancy.resources import Resource
from gpuplatform.tenancy.selectors import tenant_suspended

DELETION_SECONDS = 5
"""Seconds after which a caller can retry to use the name of an object that is being deleted."""

RETENTION_DAYS = 30
"""Number of days for which an ended operation is kept for replays. The API documents it."""

ENDED: Mapping[str, Any] = MappingProxyType(
    {"reason": "", "reason_since": None, "message": "", "due_at": None, "ended_at": Now()}
)
"""Columns that are set when an operation ends, in addition to its phase."""

_OBJECTS = ("stock_pools", "gpu_units", "claimed_stock", "functions", "node_drains")
"""Reverse relations of the rows that prevent the deletion of their operation."""


class OperationTask(StrEnum):
    """Names of the tasks of this app."""

    RUN = "operations.run_operation"
    SWEEP = "operations.sweep_operations"
    PRUNE = "operations.prune_operations"


class Admission(Enum):
    """The condition on which an operation of a tenant is accepted."""

    ALWAYS = "always"
    """Also of an inactive tenant: the operation only ends or releases something."""
    ACTIVE = "active"
    """The tenant is active. The operation is one of an operator, to which limits do not apply."""
    WITHIN_LIMITS = "within_limits"
    """The tenant is active and below its limits: the operation starts or changes something."""


@dataclass(frozen=True, slots=True)
class Request:
    """A normalized write request."""

    tenant: Tenant
    operation_id: str
    kind: str
    object_kind: str
    namespace: str
    name: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    urgency: Urgency = Urgency.NEXT
    """Priority of the operation in the queue."""
    admission: Admission = Admission.ACTIVE


@dataclass(frozen=True, slots=True)
class Accepted:
    """The operation of a request. `is_replay` is true if it was already accepted."""

    operation: Operation
    is_replay: bool


class _RowConflict(Exception):
    """Another row has the name of the object. `explain` returns the error for the caller."""

    def __init__(self, explain: Callable[[], NameConflict]) -> None:
        super().__init__()
        self.explain = explain


def operation_accept(
    request: Request,
    *,
    prepare: Callable[[Operation], int],
    turn: str = "",
    locks: Callable[[], None] = lambda: None,
) -> Accepted:
    """Accept `request`, or return its operation if it was already accepted.

    `prepare` writes the row of the object in the same transaction and returns its id. If it
    raises an exception, nothing is stored. `turn` is the key of a further turn, which is taken
    after the turn of the object and before anything is written. `locks` takes the locks that
    precede the locks of the tenant and of the operation.

    Raises:
        OperationConflict: If the operationID belongs to another request.
        TenantSuspended: If the tenant is not active, unless the request only releases something.
        QuotaExceeded: If a limit of the tenant does not allow the request.
        OperatorUnavailable: If the platform runs without a cluster.
        RecoveryNeeded: If the cluster and the database do not match.
    """
    check_writable()
    try:
        operation = _accept_new(request, prepare, turn, locks)
    except _RowConflict as error:
        raise error.explain() from error
    if operation is not None:
        return Accepted(operation, is_replay=False)
    operation = Operation.objects.select_related("tenant").get(
        tenant=request.tenant, operation_id=request.operation_id
    )
    if operation.request_hash != _expected_hash(request, operation.hash_version):
        msg = (
            f"The operationID '{request.operation_id}' belongs to a different request."
            " Use a new one for a new request."
        )
        raise OperationConflict(msg)
    return Accepted(operation, is_replay=True)


def take_turn_of_object(kind: str, namespace: str, name: str) -> None:
    """Wait until no other transaction accepts an operation on an object, and keep the turn.

    A transaction that accepts operations on several objects takes all turns first, in the order
    of the arguments.
    """
    take_turn(_turn_of_object(kind, namespace, name))


def _turn_of_object(kind: str, namespace: str, name: str) -> str:
    return "/".join((kind, namespace, name))


def check_writable() -> None:
    """Check that the platform has a cluster and that the cluster matches the database.

    Raises:
        OperatorUnavailable: If the platform runs without a cluster (`KUBE_MODE=off`, or `auto`
            without a configured cluster).
        RecoveryNeeded: If the cluster and the database do not match.
    """
    with suppress(ClusterUnavailable):  # An outage: the operation waits.
        get_cluster()
    if gate.awaits_recovery():
        raise RecoveryNeeded.example()


def row_insert(row: Model, explain: Callable[[], NameConflict]) -> None:
    """Insert the row of a new object in `prepare` of `operation_accept`; set its primary key.

    If another row has the name of the object, `operation_accept` raises the error that `explain`
    returns after the rollback. The unique constraint decides: of two concurrent inserts, the
    second waits for the first.
    """
    try:
        row.save(force_insert=True)
    except IntegrityError as error:
        if isinstance(error.__cause__, UniqueViolation):
            raise _RowConflict(explain) from error
        raise


def name_conflict(
    holders: QuerySet[Any], what: str, *, where: str = "", field: str = "name"
) -> NameConflict:
    """Return the error for a name that is already in use by one of `holders`.

    In the message, `what` is the object, such as "stock pool 'h100'", and `where` follows it.
    """
    details = [FieldError(field, "Is already in use.")]
    deleting = holders.filter(deleted_at__isnull=True, deletion_requested_at__isnull=False)
    if deleting.exists():
        msg = f"The {what} is still being deleted. Retry when it is deleted."
        return NameConflict(msg, details=details, retry_after=DELETION_SECONDS)
    return NameConflict(f"A {what} already exists{where}. Choose another name.", details=details)


def operation_rebuild(
    resource: Manifest, *, kind: str, object_kind: str = "", batch: str = "", total: int = 1
) -> Operation:
    """Insert the ended operation that created `resource` into a database that lost it.

    A replay of the request then returns the operation. If the operation created several objects,
    `batch` is the name of its object, `object_kind` the kind if it is another one, and `total` the
    number of objects.
    """
    marks, metadata = annotations(resource), resource["metadata"]
    tenant, _ = Tenant.objects.get_or_create(
        name=marks[TENANT_ANNOTATION], defaults={"namespace": f"tenant-{marks[TENANT_ANNOTATION]}"}
    )
    version = marks.get(HASH_VERSION_ANNOTATION, "")
    return Operation.objects.create(
        tenant=tenant,
        operation_id=marks[OPERATION_ID_ANNOTATION],
        kind=kind,
        payload={},
        request_hash=marks.get(REQUEST_HASH_ANNOTATION, ""),
        hash_version=int(version) if version.isdecimal() else HASH_VERSION,
        phase=OperationPhase.SUCCEEDED,
        object_kind=object_kind or resource["kind"],
        object_namespace=metadata["namespace"],
        object_name=batch or metadata["name"],
        object_uid="" if batch else metadata["uid"],
        progress_done=total,
        progress_total=total,
        created_at=parse_rfc3339(metadata["creationTimestamp"]),
        ended_at=Now(),
    )


def operations_prune(retained: Iterable[QuerySet[Operation]] = ()) -> int:
    """Delete operations after their retention, and return the number of deleted rows.

    Operations with an existing object, and operations in one of `retained`, are kept.
    """
    ended = Operation.objects.filter(
        phase__in=ENDED_PHASES, ended_at__lt=Now() - timedelta(days=RETENTION_DAYS)
    )
    unused = {f"{rows}__isnull": True for rows in _OBJECTS}
    for rows in retained:
        ended = ended.exclude(id__in=rows.values("id"))
    return ended.filter(**unused).delete()[0]


def _accept_new(
    request: Request,
    prepare: Callable[[Operation], int],
    turn: str,
    locks: Callable[[], None],
) -> Operation | None:
    """Insert the operation and the row of its object; return `None` if the operationID exists."""
    is_first = not connection.in_atomic_block
    with transaction.atomic():
        # Operations on an object commit in the order of ids. An id is assigned at the insert:
        # without the turn, a higher id could be committed first.
        place = (request.object_kind, request.namespace, request.name)
        if is_first:
            take_turn_sharing(change_turn(request.tenant.pk), _turn_of_object(*place))
        else:  # The transaction may hold locks, with which it must not wait for a change.
            take_turn_of_object(*place)
        if turn:
            take_turn(turn)
        locks()
        phase = share_tenant(request.tenant.pk)
        operation = _insert(request)
        if operation is None:
            return None
        if phase != TenantPhase.ACTIVE and request.admission is not Admission.ALWAYS:
            raise tenant_suspended(request.tenant)
        if request.admission is Admission.WITHIN_LIMITS:
            _check_limits(operation)
        operation.object_row = prepare(operation)
        Operation.objects.filter(id=operation.pk).update(object_row=operation.object_row)
        entry_insert(_audit_entry(request, operation))
        enqueue_after_commit(
            OperationTask.RUN, operation.pk, queue=Queue.OPERATIONS, urgency=request.urgency
        )
        return operation


def set_progress_total(operation: Operation, number: int) -> None:
    """Set the number of objects that an operation changes. `prepare` of its request calls it."""
    operation.progress_total = number
    Operation.objects.filter(pk=operation.pk).update(progress_total=number)


def _audit_entry(request: Request, operation: Operation) -> Entry:
    """Return the audit entry about an accepted request."""
    return Entry(
        outcome=Outcome.ACCEPTED,
        verb=request.kind.rpartition(".")[2],
        tenant=operation.target.tenant or request.tenant.name,
        kind=request.object_kind,
        namespace=request.namespace,
        name=request.name,
        uid=operation.target.uid,
        operation_id=request.operation_id,
        changes=changed_fields(
            operation.target.before,
            {key: value for key, value in request.payload.items() if key != IF_MATCH},
        ),
    )


def _check_limits(operation: Operation) -> None:
    """Read the limits of the tenant, and check the number of its open operations.

    The limits are read after the insert, in a separate statement: the insert waits for a change
    of limits in progress, and later changes wait for this transaction.
    """
    tenant = operation.tenant

    def count() -> Usage:
        others = Operation.objects.filter(tenant=tenant, phase__in=OPEN_PHASES)
        return Usage(others.exclude(pk=operation.pk).count())

    operation.limits = limits_of(tenant.pk)
    quota_check(tenant, operation.limits, [QuotaRequest(Resource.OPEN_OPERATIONS, 1, count)])


def _expected_hash(request: Request, version: int) -> str | None:
    """Return the hash of `request`, or `None` if this release does not know the version."""
    try:
        return request_hash(request.kind, _full_name(request), request.payload, version=version)
    except KeyError:
        return None


def _full_name(request: Request) -> str:
    return f"{request.namespace}/{request.name}"


def _insert(request: Request) -> Operation | None:
    """Insert the operation and return it, or return `None` if the operationID already exists.

    A single statement prevents races: a concurrent insert waits until this transaction ends.
    """
    columns: dict[str, int | str | bool] = {
        "tenant_id": request.tenant.pk,
        "operation_id": request.operation_id,
        "kind": request.kind,
        "payload": json.dumps(request.payload),
        "request_hash": request_hash(request.kind, _full_name(request), request.payload),
        "hash_version": HASH_VERSION,
        "phase": OperationPhase.PENDING.value,
        "object_kind": request.object_kind,
        "object_namespace": request.namespace,
        "object_name": request.name,
        "asked_by": current_actor(),
        "trace_id": request_trace_id(),
        **dict.fromkeys(("reason", "message", "error_code", "error_message", "object_uid"), ""),
        "error_retryable": False,
        "progress_done": 0,
        "progress_total": 1,
        "starts": 0,
        "failures": 0,
        "due_seq": 0,
    }
    table = connection.ops.quote_name(Operation._meta.db_table)  # noqa: SLF001 - Django's public name
    sql = (
        f"INSERT INTO {table} ({', '.join(columns)}, due_at)"  # noqa: S608 - constant names
        f" VALUES ({', '.join(['%s'] * len(columns))}, now())"
        " ON CONFLICT (tenant_id, operation_id) DO NOTHING RETURNING *"
    )
    for operation in Operation.objects.raw(sql, list(columns.values())):
        operation.tenant = request.tenant
        return operation
    return None
