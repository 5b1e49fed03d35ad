"""What a GPU unit owns and where its GPU comes from, as it was read in one run. Pure and total."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from typing_extensions import override

from gpuplatform.kube.fields import field, number
from gpuplatform.kube.kinds import Manifest
from gpuplatform.planning.ownership import UNIT_LABEL
from gpuplatform.planning.plan import Observation
from units.core.names import (
    GENERATION_ANNOTATION,
    SOURCE_NAME_ANNOTATION,
    SOURCE_NAMESPACE_ANNOTATION,
    SOURCE_UID_ANNOTATION,
    UNIT_UID_LABEL,
)
from units.phases import STOCK_NAMESPACE

_NAME_MAX = 253
_UID_MAX = 36


@dataclass(frozen=True, slots=True)
class NoSource:
    """The unit names no stock unit: it is made by hand, or stock itself."""


@dataclass(frozen=True, slots=True)
class SourcePending:
    """The row of its source says neither consumed by this unit nor by another, yet."""


@dataclass(frozen=True, slots=True)
class SourceHeld:
    """Its row says consumed by this unit's UID; something of the stock is there or unread."""

    why: str
    """What, as a clause for a person: `its pods are still there`."""


@dataclass(frozen=True, slots=True)
class SourceGone:
    """Consumed by this unit's UID; resource, Deployment, ReplicaSets and pods observed absent."""

    may_preempt: bool
    """Whether the unit may evict others for the GPU that its stock held."""
    is_news: bool = False
    """Whether that was seen for the first time, and nothing else has the stock unit's name."""


@dataclass(frozen=True, slots=True)
class SourceLost:
    """Its row says consumed by another, or there is no such row: it starts as one without."""


@dataclass(frozen=True, slots=True)
class SourceUnread:
    """The unit runs already, at a priority that was decided then: its source changes nothing."""


Source: TypeAlias = NoSource | SourcePending | SourceHeld | SourceGone | SourceLost | SourceUnread


@dataclass(frozen=True, slots=True)
class Shortage:
    """A node that offers fewer GPUs than the pods on it hold: a card is lost, or the node is."""

    node: str
    offered: int
    """GPUs that it can hand out; none, if it is not there."""
    held: int
    """GPUs that pods on it hold, whoever they belong to."""

    @override
    def __str__(self) -> str:
        """Return the two numbers, as a clause for a person."""
        return f"node '{self.node}' offers {self.offered} GPUs and its pods hold {self.held}"


@dataclass(frozen=True, slots=True)
class ObservedUnit:
    """What was read of one unit, in either role."""

    deployment: Observation[Manifest]
    service: Observation[Manifest]
    pods: Observation[Sequence[Manifest]]
    source: Source = NoSource()
    is_start_void: bool = False
    """The last operation applied to it is a start that ended Failed or Cancelled."""
    consumed_by: str = ""
    """Stock only: UID of the unit that took it, by its row; empty while it is not consumed."""
    short_nodes: Sequence[Shortage] = ()
    """The nodes that offer fewer GPUs than their pods hold."""
    at: datetime | None = None
    """When it was read; without it there is no time of grace."""


@dataclass(frozen=True, slots=True)
class SourceReference:
    """The stock unit that a unit names as its source."""

    name: str
    uid: str

    def annotations(self) -> dict[str, str]:
        """Return the annotations that say so on the unit."""
        return {
            SOURCE_NAME_ANNOTATION: self.name,
            SOURCE_NAMESPACE_ANNOTATION: STOCK_NAMESPACE,
            SOURCE_UID_ANNOTATION: self.uid,
        }


def source_of(unit: Manifest) -> SourceReference | None:
    """Return the source that `unit` names; None where it names none that can be.

    Anybody may write there what no row can hold; that counts as nothing.
    """
    found = field(unit, "metadata", "annotations")
    marks: Mapping[str, object] = found if isinstance(found, dict) else {}
    name, uid = marks.get(SOURCE_NAME_ANNOTATION), marks.get(SOURCE_UID_ANNOTATION)
    is_sound = (
        isinstance(name, str)
        and isinstance(uid, str)
        and 0 < len(name) <= _NAME_MAX
        and 0 < len(uid) <= _UID_MAX
        and (name + uid).isprintable()
        and marks.get(SOURCE_NAMESPACE_ANNOTATION) == STOCK_NAMESPACE
    )
    return SourceReference(str(name), str(uid)) if is_sound else None


def own_pods(unit: Manifest, pods: Sequence[Manifest]) -> list[Manifest]:
    """Return the pods of exactly this unit; one of its name before may have left others.

    One that lost the mark of its unit's UID is known by the name: it holds its GPU all the same.
    """
    uid, name = field(unit, "metadata", "uid"), field(unit, "metadata", "name")

    def is_own(pod: Manifest) -> bool:
        mark = field(pod, "metadata", "labels", UNIT_UID_LABEL)
        named: object = field(pod, "metadata", "labels", UNIT_LABEL)
        return bool(mark == uid if mark else named == name)

    return [pod for pod in pods if is_own(pod)]


def holds_gpu(pod: Manifest) -> bool:
    """Say whether `pod` still takes its GPU: one that ended may lie about until its owner goes.

    Source: Kubernetes documentation, "Pod Lifecycle": the node's resources are free once the
    phase is Succeeded or Failed.
    """
    return field(pod, "status", "phase") not in {"Succeeded", "Failed"}


def written_for(deployment: Manifest) -> int:
    """Return the generation of the unit that its Deployment was written for last; 0 if none."""
    mark = str(field(deployment, "metadata", "annotations", GENERATION_ANNOTATION))
    return int(mark) if re.fullmatch("[0-9]{1,9}", mark) else 0


def is_at_rest(unit: Manifest, deployment: Manifest) -> bool:
    """Say whether the planner brought the Deployment to zero for `unit` as it is.

    Rule `stamp` of the hand-over: only then is every older decision to scale it up refused, since
    each was made on an older version of the Deployment. A start waits for this.
    """
    is_at_zero: bool = field(deployment, "spec", "replicas") == 0
    return is_at_zero and written_for(deployment) == number(unit, "metadata", "generation")
