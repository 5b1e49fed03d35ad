"""Takes the next steps of the drain of a node: reads the node and its pods, plans, and requests.

Every step is an operation of the platform. No step is lost if the process is killed: the next run
reads the node again, and repeats what is not requested yet.
"""

import logging
from collections.abc import Callable, Collection
from typing import Final, TypeVar

from gpuplatform import clock
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.errors import ClusterError
from gpuplatform.kube.kinds import GPU_UNIT, NODE, POD
from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.planning.plan import Absent, Event, Observation, Present, Unknown
from gpuplatform.reconciliation import event_writer
from gpuplatform.reconciliation.events import InvolvedObject
from gpuplatform.workloads.nodes import NodeState
from inventory.models import NodeDrain
from inventory.services.drains import drain_finish, drain_notified
from units.core.drain import DrainView, Occupants, notice_event, plan_drain, stop_event
from units.drain_progress import occupants_of
from units.models import GpuUnit
from units.services.drains import drain_move_stock, drain_replace_worker, drain_stop_unit

logger = logging.getLogger(__name__)

EVENT_SECONDS: Final = 5.0
"""Maximum duration in seconds of the wait until the Events of a run are written."""

T = TypeVar("T")


def drain_advance(cluster: Cluster, drain_id: int) -> None:
    """Take the next steps of a drain, if it is still in progress."""
    drain = NodeDrain.objects.select_related("operation").filter(pk=drain_id).first()
    if drain is None:
        return
    # The operation is read before the node: once it has succeeded, a node that can be scheduled
    # was uncordoned again.
    view = DrainView(
        is_cordoning=drain.operation.phase in OPEN_PHASES,
        deadline=drain.deadline,
        notified=frozenset(drain.notified),
    )
    node = _observed(lambda: _node(cluster, drain.node))
    plan = plan_drain(view, node, _observed(lambda: _occupants(cluster, drain.node)), clock.now())
    if plan.end is not None and drain_finish(drain):
        logger.info("the drain of node %s ended: %s", drain, plan.end.value)
        return
    drain_move_stock(drain, plan.moves)
    for worker in _units(plan.replaces):
        drain_replace_worker(drain, worker)
    _notify(cluster, drain, plan.notifies)
    for unit in _units(plan.stops):
        if drain_stop_unit(drain, unit):
            _submit(cluster, unit, stop_event(drain.node, unit.group_name))


def _node(cluster: Cluster, name: str) -> Observation[NodeState]:
    found = cluster.get(NODE, name)
    return Absent() if found is None else Present(NodeState.of(found))


def _occupants(cluster: Cluster, node: str) -> Observation[Occupants]:
    pods = cluster.list(POD, field_selector=f"spec.nodeName={node}")
    return Present(occupants_of(pods.items))


def _observed(read: Callable[[], Observation[T]]) -> Observation[T]:
    try:
        return read()
    except ClusterError as error:
        logger.warning("a drain waits because the cluster cannot be read: %s", error)
        return Unknown(str(error))


def _units(ids: Collection[int]) -> list[GpuUnit]:
    return list(GpuUnit.objects.filter(pk__in=ids).select_related("tenant").order_by("id"))


def _notify(cluster: Cluster, drain: NodeDrain, ids: Collection[int]) -> None:
    """Write an Event about the notice for each unit, at least once.

    The units are recorded after the Events: if the process is killed in between, the next run
    increases the count of the same Event.
    """
    units = _units(ids)
    for unit in units:
        _submit(cluster, unit, notice_event(drain.node))
    if units:
        event_writer.finish(EVENT_SECONDS)
        drain_notified(drain, [unit.uid for unit in units])


def _submit(cluster: Cluster, unit: GpuUnit, event: Event) -> None:
    subject = InvolvedObject(GPU_UNIT, unit.namespace, unit.name, unit.uid)
    event_writer.submit(cluster, subject, [event])
