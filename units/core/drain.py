"""Decides the next steps of the drain of a node, and its displayed state. Pure.

The node must be cordoned before anything leaves it: otherwise, the moved stock and the restarted
workers could be scheduled on it again. What could not be read leaves everything as it is.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from gpuplatform.kube.fields import field as read
from gpuplatform.kube.fields import text
from gpuplatform.kube.kinds import Manifest
from gpuplatform.planning.plan import (
    Absent,
    Event,
    EventType,
    Observation,
    Present,
    Unknown,
)
from gpuplatform.workloads.holders import holds_gpu
from gpuplatform.workloads.nodes import NodeState
from units.core.names import UNIT_UID_LABEL
from units.drain_states import DrainState


class DrainEnd(Enum):
    """The events that end a drain without a request to the platform."""

    UNCORDONED = "uncordoned"
    """Another client has uncordoned the node."""
    NODE_DELETED = "node deleted"
    """The node does not exist, and no pod is bound to it."""


@dataclass(frozen=True, slots=True)
class DrainView:
    """A drain in progress, as it was read before the node."""

    is_cordoning: bool
    """Whether the operation that cordons the node is open."""
    deadline: datetime | None = None
    """The time at which units are stopped, or `None` if they keep running."""
    notified: frozenset[str] = frozenset()
    """The UIDs of the units with an Event about the notice."""


@dataclass(frozen=True, slots=True)
class Occupants:
    """The rows of the units whose pods run on the node, and that no request ends yet."""

    stock: frozenset[int] = frozenset()
    """The ids of unclaimed stock units."""
    workers: frozenset[int] = frozenset()
    """The ids of workers of functions."""
    units: Mapping[int, str] = field(default_factory=dict)
    """The UIDs of the other active units by id."""
    pods: int = 0
    """The number of all pods of units on the node, including pods that are ending."""


@dataclass(frozen=True, slots=True)
class DrainPlan:
    """The next steps of a drain."""

    end: DrainEnd | None = None
    """The event that ends the drain, or `None`."""
    moves: frozenset[int] = frozenset()
    """The ids of the stock units to remove and to replace."""
    replaces: frozenset[int] = frozenset()
    """The ids of the workers to delete, which the activator replaces."""
    notifies: frozenset[int] = frozenset()
    """The ids of the units to write an Event about the notice for."""
    stops: frozenset[int] = frozenset()
    """The ids of the units to stop."""


def plan_drain(
    drain: DrainView,
    node: Observation[NodeState],
    occupants: Observation[Occupants],
    now: datetime,
) -> DrainPlan:
    """Return the next steps of a drain. After a failed read, it plans no step."""
    if drain.is_cordoning:
        return DrainPlan()
    match node, occupants:
        case Unknown(), _:
            return DrainPlan()
        case Absent(), Present(left):
            # The pods of a deleted node end or return with it; what they are now is not known.
            return DrainPlan() if left.pods else DrainPlan(end=DrainEnd.NODE_DELETED)
        case Present(state), _ if state.is_schedulable:
            return DrainPlan(end=DrainEnd.UNCORDONED)
        case Present(), Present(found):
            return _leave(drain, found, now)
        case _:
            return DrainPlan()


def _leave(drain: DrainView, found: Occupants, now: datetime) -> DrainPlan:
    """Return the steps by which units leave a cordoned node."""
    notifies, stops = frozenset[int](), frozenset[int]()
    if drain.deadline is not None and now < drain.deadline:
        unknown = (one for one, uid in found.units.items() if uid not in drain.notified)
        notifies = frozenset(unknown)
    elif drain.deadline is not None:
        stops = frozenset(found.units)
    return DrainPlan(moves=found.stock, replaces=found.workers, notifies=notifies, stops=stops)


def unit_pods(pods: Iterable[Manifest]) -> tuple[frozenset[str], int]:
    """Return the UIDs of the units with a pod that runs and is not ending, and the number of pods.

    A pod that has ended is not counted.
    """
    ours = [pod for pod in pods if text(pod, "metadata", "labels", UNIT_UID_LABEL)]
    bound = [pod for pod in ours if holds_gpu(pod)]
    staying = [pod for pod in bound if not read(pod, "metadata", "deletionTimestamp")]
    uids = frozenset(text(pod, "metadata", "labels", UNIT_UID_LABEL) for pod in staying)
    return uids, len(bound)


def drain_state(
    node: NodeState, deadline: datetime | None, *, units: int, stock: int, now: datetime
) -> DrainState:
    """Return the displayed state of a drain.

    Args:
        node: The node.
        deadline: The time at which units are stopped, or `None` if they keep running.
        units: The number of active units that are left on the node.
        stock: The number of stock units that are left on the node.
        now: The current time.
    """
    stopping = bool(units) and deadline is not None and now >= deadline
    rules: Sequence[tuple[bool, DrainState]] = (
        (not node.is_present, DrainState.NODE_MISSING),
        (node.is_schedulable, DrainState.CORDONING),
        (stopping, DrainState.STOPPING_UNITS),
        (stock > 0, DrainState.MOVING_STOCK),
        (units > 0 and deadline is not None, DrainState.NOTICE_GIVEN),
        (units > 0, DrainState.WAITING_FOR_UNITS),
    )
    return next((state for holds, state in rules if holds), DrainState.DRAINED)


def notice_text(node: str, deadline: datetime, group: str) -> str:
    """Return the sentences that inform the owner of a unit about a drain.

    `group` is the name of the group of the unit, or an empty string.
    """
    stopped = (
        f"Node '{node}' is being drained. The unit is stopped at {deadline:%Y-%m-%d %H:%M} UTC"
    )
    if group:
        return f"{stopped}. Its group '{group}' then fails: delete the group and create it again."
    return f"{stopped} and can be started again on another node."


def notice_event(node: str) -> Event:
    """Return the Event about a unit that is stopped at the end of a notice."""
    message = (
        f"Node '{node}' is being drained, so that the unit will be stopped. The field notice of"
        " the unit contains the time."
    )
    return Event(EventType.WARNING, "NodeDrainNotice", message)


def stop_event(node: str, group: str) -> Event:
    """Return the Event about a unit that a drain stops, with its group or an empty string."""
    next_step = (
        f"Delete its group '{group}' and create it again"
        if group
        else "Start the unit to run it on another node"
    )
    message = f"The unit is stopped because node '{node}' is being drained. {next_step}."
    return Event(EventType.NORMAL, "NodeDrained", message)
