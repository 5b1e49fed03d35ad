"""Accepts operations. The only writer of new operation rows.

Called by the apps' services, never by a view. Accepting is one transaction without a network call:
it inserts the operation and writes the app's row of the object.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from django.db import connection, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from gpuplatform.api.trace_id import request_trace_id
from gpuplatform.clock import parse_rfc3339
from gpuplatform.errors import (
    ClusterUnavailable,
    FieldError,
    NameConflict,
    OperationConflict,
    RecoveryNeeded,
)
from gpuplatform.kube.kinds import Manifest
from gpuplatform.kube.modes import get_cluster
from gpuplatform.operations.hashing import HASH_VERSION, request_hash
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import ENDED_PHASES, OperationPhase
from gpuplatform.operations.provenance import (
    HASH_VERSION_ANNOTATION,
    OPERATION_ID_ANNOTATION,
    REQUEST_HASH_ANNOTATION,
    TENANT_ANNOTATION,
    annotations,
)
from gpuplatform.queueing import Queue, Urgency, enqueue_after_commit
from gpuplatform.reconciliation import gate
from gpuplatform.tenancy.actor import current_actor
from gpuplatform.tenancy.models import Tenant

DELETION_SECONDS = 5
"""Seconds after which a caller may use the name of an object that is being deleted."""

RETENTION_DAYS = 30
"""Days for which replays of an ended operation return it. Published in the API's documentation."""

ENDED: Mapping[str, Any] = MappingProxyType(
    {"reason": "", "reason_since": None, "message": "", "due_at": None, "ended_at": Now()}
)
"""Columns that every end of an operation sets, in addition to its phase."""

_OBJECTS = ("stock_pools", "gpu_units", "claimed_stock", "functions")
"""Reverse relations of rows whose operation is not deleted."""


class OperationTask(StrEnum):
    """Names of this app's tasks."""

    RUN = "operations.run_operation"
    SWEEP = "operations.sweep_operations"
    PRUNE = "operations.prune_operations"


@dataclass(frozen=True, slots=True)
class Request:
    """One normalised write: tenant, operationID, kind, object and payload."""

    tenant: Tenant
    operation_id: str
    kind: str
    object_kind: str
    namespace: str
    name: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    urgency: Urgency = Urgency.NEXT
    """Priority among the operations that wait."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The operation of a request; `is_replay` if it was accepted before."""

    operation: Operation
    is_replay: bool


def operation_accept(request: Request, *, prepare: Callable[[Operation], int]) -> Accepted:
    """Accept `request`, or return the operation that it was accepted as before.

    `prepare` writes the row of the object in the same transaction and returns its id; if it
    raises, nothing is stored.

    Raises:
        OperationConflict: the operationID belongs to another request.
        OperatorUnavailable: the platform runs without a cluster.
        RecoveryNeeded: cluster and database do not belong together.
    """
    check_writable()
    with transaction.atomic():
        _lock_object(request)
        operation = _insert(request)
        if operation is not None:
            row = prepare(operation)
            Operation.objects.filter(id=operation.pk).update(object_row=row)
            operation.object_row = row
            enqueue_after_commit(
                OperationTask.RUN,
                operation.pk,
                queue=Queue.OPERATIONS,
                urgency=request.urgency,
            )
            return Accepted(operation, is_replay=False)
    operation = Operation.objects.select_related("tenant").get(
        tenant=request.tenant, operation_id=request.operation_id
    )
    if operation.request_hash != _expected_hash(request, operation.hash_version):
        msg = (
            f"The operationID '{request.operation_id}' was used for another request."
            " Use a new one for a new request."
        )
        raise OperationConflict(msg)
    return Accepted(operation, is_replay=True)


def check_writable() -> None:
    """Check that the platform has a cluster and that it belongs to this database.

    Raises:
        OperatorUnavailable: the platform runs without a cluster (`KUBE_MODE=off`, or `auto`
            without a configured cluster).
        RecoveryNeeded: cluster and database do not belong together.
    """
    with suppress(ClusterUnavailable):  # An outage: the operation waits.
        get_cluster()
    if gate.awaits_recovery():
        raise RecoveryNeeded(str(RecoveryNeeded.example()), retry_after=60)


def name_conflict(
    holders: QuerySet[Any], what: str, *, where: str = "", field: str = "name"
) -> NameConflict:
    """Return the error for a name in use: `holders` are the rows that have, or had, it.

    `what` is the object for the message, as in "stock pool 'h100'"; `where` is appended to it.
    """
    details = [FieldError(field, "Is in use.")]
    deleting = holders.filter(deleted_at__isnull=True, deletion_requested_at__isnull=False)
    if deleting.exists():
        msg = f"The {what} is still being deleted. Try again when it is deleted."
        return NameConflict(msg, details=details, retry_after=DELETION_SECONDS)
    return NameConflict(f"A {what} exists{where}. Choose another name.", details=details)


def operation_rebuild(
    resource: Manifest, *, kind: str, batch: str = "", total: int = 1
) -> Operation:
    """Insert the ended operation that created `resource`, for a database that lost it.

    A replay of the request then returns it. For an operation that created several objects, `batch`
    is the name of its object and `total` the number of objects.
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
        object_kind=resource["kind"],
        object_namespace=metadata["namespace"],
        object_name=batch or metadata["name"],
        object_uid="" if batch else metadata["uid"],
        progress_done=total,
        progress_total=total,
        created_at=parse_rfc3339(metadata["creationTimestamp"]),
        ended_at=Now(),
    )


def operations_prune(retained: Iterable[QuerySet[Operation]] = ()) -> int:
    """Delete operations past their retention whose object's row is deleted; return the count.

    Operations of the querysets in `retained` are not deleted.
    """
    ended = Operation.objects.filter(
        phase__in=ENDED_PHASES, ended_at__lt=Now() - timedelta(days=RETENTION_DAYS)
    )
    unused = {f"{rows}__isnull": True for rows in _OBJECTS}
    for rows in retained:
        ended = ended.exclude(id__in=rows.values("id"))
    return ended.filter(**unused).delete()[0]


def _expected_hash(request: Request, version: int) -> str | None:
    """Return the hash of `request`; None for a version that this release does not know."""
    try:
        return request_hash(request.kind, _full_name(request), request.payload, version=version)
    except KeyError:
        return None


def _full_name(request: Request) -> str:
    return f"{request.namespace}/{request.name}"


def _lock_object(request: Request) -> None:
    """Serialise the writes on one object, so that the order of their ids is their order.

    The id is assigned at the insert: without the lock, a later id could be committed first.
    """
    key = "/".join((request.object_kind, request.namespace, request.name))
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [key])


def _insert(request: Request) -> Operation | None:
    """Insert the operation and return it; None if its operationID exists already.

    One statement decides: of two concurrent inserts, the second waits for the end of the first.
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
