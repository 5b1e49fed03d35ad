"""The five steps of a reconciliation, for every kind: claim, observe, plan, apply, record.

The `reconcile_…` task of an app calls `run` with the id of a row and the `Reconciler` of the kind.
No transaction is open during a request to the cluster. One deadline covers all requests of a run.
"""

import logging
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Generic, TypeVar

from django.db.models import F, QuerySet
from django.db.models.functions import Now

from gpuplatform import clock
from gpuplatform.errors import Retry
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.deadline import deadline
from gpuplatform.kube.errors import ClusterConflict, ClusterError, ClusterRejected
from gpuplatform.kube.kinds import Manifest, ResourceKind
from gpuplatform.kube.modes import get_cluster
from gpuplatform.lifecycle.conditions import merge_conditions
from gpuplatform.metrics.declared import RECONCILE_SECONDS
from gpuplatform.metrics.recorder import timed
from gpuplatform.planning.backoff import backoff_seconds
from gpuplatform.planning.comparison import status_differs
from gpuplatform.planning.plan import Absent, Event, Observation, Plan, Present, Status
from gpuplatform.reconciliation import epoch, event_writer, gate
from gpuplatform.reconciliation.actions import execute
from gpuplatform.reconciliation.events import InvolvedObject, new_events
from gpuplatform.reconciliation.leases import RowLease, claim, renewing
from gpuplatform.reconciliation.models import MirrorRow
from gpuplatform.reconciliation.staleness import confirm_deleted

logger = logging.getLogger(__name__)

RUN_SECONDS = 25.0
"""Maximum duration of a run in seconds. The lease is renewed during that time."""

ENDING_SECONDS = 2.0
LONGEST_ENDING_SECONDS = 60.0
"""Minimum and maximum delay in seconds before the objects of a deleted resource are read again. An
event about one of the objects enqueues the row earlier."""

RowT = TypeVar("RowT", bound=MirrorRow)
ObservedT = TypeVar("ObservedT")


@dataclass(frozen=True, slots=True)
class Reconciler(Generic[RowT, ObservedT]):
    """The functions that reconcile one kind of resource."""

    kind: ResourceKind
    rows: Callable[[], QuerySet[RowT]]
    """Returns the rows whose resources may still exist."""
    observe: Callable[[Cluster, Manifest], ObservedT]
    """Reads the objects that the resource owns. A failed read is `Unknown`."""
    plan: Callable[[Manifest, ObservedT], Plan]
    """Returns the plan. The function is pure and total."""
    record: Callable[[RowLease[RowT], Manifest], None]
    """Copies the resource to the row, if the lease is still held."""
    close: Callable[[QuerySet[RowT], Manifest | None], None]
    """Closes the row of a deleted resource. The second argument is the resource that has the same
    name now, or `None`."""
    deletion_event: Callable[[RowT], Event | None]
    """Returns the Event to write after the row of a deleted resource is closed."""
    note: Callable[[Manifest, ObservedT], None] = lambda _resource, _observed: None
    """Stores other observations, after the resource is recorded."""
    ending: "Ending[RowT] | None" = None
    """Set for a kind whose rows remain open until all owned objects are deleted."""


@dataclass(frozen=True, slots=True)
class Ending(Generic[RowT]):
    """The handling of a deleted resource while objects that it owned still exist."""

    show: Callable[[QuerySet[RowT], str], None]
    """Marks the row as terminating. The text describes the remaining objects; it is empty if they
    are unknown."""
    remains: Callable[[Cluster, RowT], Observation[Any]]
    """Reads the objects that the resource owned. Only `Absent` closes the row."""


def run(reconciler: Reconciler[RowT, ObservedT], row_id: int) -> float | None:
    """Reconcile one resource, if its row is due and no other worker holds the lease.

    Returns:
        The delay in seconds before the next run, or `None` if no run is scheduled.
    """
    if not epoch.is_compared() and (gate.is_closed() or not epoch.matches()):
        return None
    lease = claim(reconciler.rows().filter(gate.open_gate()).exclude(uid=""), row_id)
    if lease is None:
        return None
    with renewing(lease), timed(RECONCILE_SECONDS, kind=reconciler.kind.kind) as run_outcome:
        try:
            requeue_after = _reconcile(reconciler, lease)
        except ClusterConflict:  # Another writer changed an object: observe and plan again.
            run_outcome.name = "conflict"
            return _finish(lease, wait=backoff_seconds(1), failed=False)
        except ClusterError as error:
            run_outcome.name = "failed"
            if gate.is_unreachable(error):
                gate.close(error)
            return _finish_failed(lease, error.retry_after, str(error))
        except Exception:  # noqa: BLE001 - one faulty object must not delay others
            return _finish_failed(lease, None, traceback.format_exc())
        run_outcome.name = "done"
        return _finish(lease, wait=requeue_after, failed=False)


def _reconcile(reconciler: Reconciler[RowT, ObservedT], lease: RowLease[RowT]) -> float | None:
    row, cluster = lease.row, get_cluster()
    with deadline(RUN_SECONDS):
        read = cluster.get(reconciler.kind, row.name, namespace=row.namespace)
        if read is None or read["metadata"]["uid"] != row.uid:
            confirm_deleted(cluster, reconciler.kind, row, read)
            return _close(reconciler, lease, read)
        observed = reconciler.observe(cluster, read)
        plan = reconciler.plan(read, observed)
        status, error = _execute_actions(cluster, plan)
        resource = _write_status(cluster, reconciler.kind, read, status)
    reconciler.record(lease, resource)
    reconciler.note(read, observed)
    events = [] if error is not None else list(plan.events)
    if resource is not read and status is not None:
        events += new_events(read, status)
    event_writer.submit(cluster, _subject(reconciler, row), events)
    if error is not None:
        raise error
    return plan.requeue_after


def _execute_actions(cluster: Cluster, plan: Plan) -> tuple[Status | None, ClusterError | None]:
    """Execute the actions until one fails. Return the status to write and the error, if any."""
    for action in plan.actions:
        try:
            execute(cluster, action)
        except ClusterError as error:
            return _failed_status(plan, action.kind, error), error
    return plan.status, None


def _close(
    reconciler: Reconciler[RowT, ObservedT], lease: RowLease[RowT], successor: Manifest | None
) -> float | None:
    """Close the row of a deleted resource, after all objects that it owned are deleted."""
    if reconciler.ending is not None and not _is_ended(reconciler.ending, lease):
        return _ending_seconds(lease.row)
    reconciler.close(lease.guarded(), successor)
    event = reconciler.deletion_event(lease.row)
    if event is not None:
        event_writer.submit(get_cluster(), _subject(reconciler, lease.row), [event])
    return None


def _is_ended(ending: Ending[RowT], lease: RowLease[RowT]) -> bool:
    """Return whether all owned objects are deleted; if not, mark the row as terminating."""
    is_ended, remaining = False, ""
    try:
        found = ending.remains(get_cluster(), lease.row)
        is_ended = isinstance(found, Absent)
        remaining = str(found.value) if isinstance(found, Present) else ""
    finally:
        if not is_ended:
            ending.show(lease.guarded(), remaining)
    return is_ended


def _subject(reconciler: Reconciler[RowT, ObservedT], row: RowT) -> InvolvedObject:
    return InvolvedObject(reconciler.kind, row.namespace, row.name, row.uid)


def _ending_seconds(row: MirrorRow) -> float:
    """Return a tenth of the time since the deletion, within the limits."""
    since = row.deletion_requested_at
    age = 0.0 if since is None else (clock.now() - since).total_seconds()
    return min(max(age / 10, ENDING_SECONDS), LONGEST_ENDING_SECONDS)


def _failed_status(plan: Plan, kind: ResourceKind, error: ClusterError) -> Status | None:
    """Return the status after a failed action.

    Returns `None` if a retry may succeed soon; the status then remains unchanged.
    """
    status = plan.on_error.get(kind)
    if status is None or error.retry is Retry.NOW or gate.is_unreachable(error):
        return None
    conditions = tuple(
        replace(one, message=f"{one.message} {error}".strip()) for one in status.conditions
    )
    event = status.event and replace(status.event, message=conditions[0].message)
    return replace(status, conditions=conditions, event=event)


def status_fields(resource: Manifest, status: Status) -> Manifest:
    """Return the status as JSON. Unchanged conditions keep their `lastTransitionTime`."""
    live = resource.get("status") or {}
    return {
        **status.fields,
        "phase": status.phase,
        "cause": status.cause or None,
        "observedGeneration": status.observed_generation,
        "conditions": merge_conditions(
            live.get("conditions") or [], status.conditions, clock.now()
        ),
    }


def _write_status(
    cluster: Cluster, kind: ResourceKind, resource: Manifest, status: Status | None
) -> Manifest:
    """Write the status if it differs. Return the resource after the write.

    Raises:
        ClusterConflict: If the resource was changed or deleted after it was read.
    """
    if status is None:
        return resource
    wanted = status_fields(resource, status)
    if not status_differs(resource.get("status") or {}, wanted):
        return resource
    metadata = resource["metadata"]
    try:
        return cluster.merge_patch(
            kind,
            metadata["name"],
            {
                "metadata": {key: metadata[key] for key in ("uid", "resourceVersion")},
                "status": {**wanted, "lastSyncTime": clock.rfc3339(clock.now())},
            },
            namespace=metadata["namespace"],
            subresource="status",
        )
    except ClusterRejected as error:
        if error.status == HTTPStatus.NOT_FOUND:  # Deleted after it was read.
            raise ClusterConflict(str(error), reason=error.reason, status=error.status) from error
        raise


def _finish_failed(lease: RowLease[RowT], retry_after: float | None, error: str) -> float | None:
    logger.warning("%s was not reconciled: %s", lease.row, error)
    wait = retry_after or backoff_seconds(lease.row.failures + 1)
    return _finish(lease, wait=wait, failed=True)


def _finish(lease: RowLease[RowT], *, wait: float | None, failed: bool) -> float | None:
    """Release the lease. Return `wait`, or 0 if the row was marked due during the run."""
    due_at = None if wait is None else Now() + timedelta(seconds=wait)
    failures = F("failures") + 1 if failed else 0
    unmarked = lease.guarded().filter(due_seq=lease.row.due_seq)
    released = {"lease_token": None, "lease_expires_at": None, "failures": failures}
    if unmarked.update(due_at=due_at, **released):
        return wait
    lease.guarded().update(**released)
    return 0.0
