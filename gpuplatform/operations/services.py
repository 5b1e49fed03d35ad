"""Accepting operations. The only writer of new operation rows.

Called by the apps' services, never by a view. Accepting is one transaction without a network call:
the operation, and whatever row the app makes for its object.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from django.db import connection, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from gpuplatform.api.trace_id import request_trace_id
from gpuplatform.clock import parse_rfc3339
from gpuplatform.errors import ClusterUnavailable, OperationConflict, RecoveryNeeded
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

RETENTION_DAYS = 30
"""How long an ended operation answers replays. Published in the API's documentation."""

ENDED: Mapping[str, Any] = MappingProxyType(
    {"reason": "", "reason_since": None, "message": "", "due_at": None, "ended_at": Now()}
)
"""What every end of an operation writes, beside its phase."""

_OBJECTS = ("stock_pools", "gpu_units", "claimed_stock", "functions")
"""The rows, by the names that apps give the way back, that keep their operation."""


class OperationTask(StrEnum):
    """Names of this app's tasks."""

    RUN = "operations.run_operation"
    SWEEP = "operations.sweep_operations"
    PRUNE = "operations.prune_operations"


@dataclass(frozen=True, slots=True)
class Request:
    """One write, normalised: who asks, under which operationID, for what."""

    tenant: Tenant
    operation_id: str
    kind: str
    object_kind: str
    namespace: str
    name: str
    payload: Mapping[str, Any]
    urgency: Urgency = Urgency.NEXT
    """How soon a worker takes it, among others."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The operation of a request; `is_replay` when it had been accepted before."""

    operation: Operation
    is_replay: bool


def operation_accept(request: Request, *, prepare: Callable[[Operation], int]) -> Accepted:
    """Accept `request`, or find that it was accepted before.

    `prepare` makes or takes the row of the object in the same transaction and returns its number;
    what it raises leaves nothing behind.

    Raises:
        OperationConflict: the operationID belongs to another request.
        OperatorUnavailable: the platform runs without a cluster.
        RecoveryNeeded: cluster and database do not belong together.
    """
    check_writable()
    with transaction.atomic():
        _take_turn(request)
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
    """Refuse writes when the platform has no cluster or not the one of this database.

    Raises:
        OperatorUnavailable: the platform runs without a cluster (`KUBE_MODE=off`, or `auto` with
            none to be found).
        RecoveryNeeded: cluster and database do not belong together.
    """
    with suppress(ClusterUnavailable):  # Not there yet is an outage: the operation waits.
        get_cluster()
    if gate.awaits_recovery():
        raise RecoveryNeeded(str(RecoveryNeeded.example()), retry_after=60)


def operation_rebuild(
    resource: Manifest, *, kind: str, batch: str = "", total: int = 1
) -> Operation:
    """Make the ended operation that `resource` says made it, for a database that lost it.

    A replay of the request then answers as before. Of an operation that made many, `batch` is its
    object's name and `total` how many it made.
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


def operations_prune(kept: Iterable[QuerySet[Operation]] = ()) -> int:
    """Delete operations that ended long ago and whose object's row is gone; return how many.

    None of those that are to be `kept`.
    """
    ended = Operation.objects.filter(
        phase__in=ENDED_PHASES, ended_at__lt=Now() - timedelta(days=RETENTION_DAYS)
    )
    unused = {f"{rows}__isnull": True for rows in _OBJECTS}
    for rows in kept:
        ended = ended.exclude(id__in=rows.values("id"))
    return ended.filter(**unused).delete()[0]


def _expected_hash(request: Request, version: int) -> str | None:
    """Return what `request` hashes to; None for a version that only a later release knows."""
    try:
        return request_hash(request.kind, _full_name(request), request.payload, version=version)
    except KeyError:
        return None


def _full_name(request: Request) -> str:
    return f"{request.namespace}/{request.name}"


def _take_turn(request: Request) -> None:
    """Accept the writes on one object one after another, so that their numbers are their order.

    A number is drawn at the insert: without this a later one could be committed, and done, first.
    """
    key = "/".join((request.object_kind, request.namespace, request.name))
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [key])


def _insert(request: Request) -> Operation | None:
    """Insert the operation and return it; None when its id is there already.

    One arbitrated insert: of two at the same moment the second waits for the first one's end.
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
        f"INSERT INTO {table} ({', '.join(columns)}, due_at)"  # noqa: S608 - names of ours
        f" VALUES ({', '.join(['%s'] * len(columns))}, now())"
        " ON CONFLICT (tenant_id, operation_id) DO NOTHING RETURNING *"
    )
    for operation in Operation.objects.raw(sql, list(columns.values())):
        operation.tenant = request.tenant
        return operation
    return None
