"""What a GPU unit owns and where its GPU comes from, as one run read it. Pure and total."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from gpuplatform.kube.fields import field as read
from gpuplatform.kube.kinds import Manifest
from gpuplatform.planning.ownership import UNIT_LABEL
from gpuplatform.planning.plan import Present
from gpuplatform.planning.view import ResourceView
from gpuplatform.workloads.owner import Children
from units.core.names import GENERATION_ANNOTATION, UNIT_UID_LABEL
from units.core.shortage import Shortage, holds_gpu
from units.core.sources import NoSource, Source


@dataclass(frozen=True, slots=True)
class ObservedUnit(Children):
    """What was read of one unit, in either role."""

    source: Source = field(default_factory=NoSource)
    is_start_void: bool = False
    """The last operation applied to it is a start that ended Failed or Cancelled."""
    consumed_by: str = ""
    """Stock only: UID of the unit that consumed it, by its row; empty while it is not consumed."""
    short_nodes: Sequence[Shortage] = ()
    """The nodes that offer fewer GPUs than their pods hold."""

    def own_pods(self, unit: ResourceView) -> list[Manifest]:
        """Return the pods of exactly this unit; none where they are unknown."""
        return own_pods(unit, self.pods.value) if isinstance(self.pods, Present) else []

    def has_gpu(self, unit: ResourceView) -> bool:
        """Return whether a pod of exactly this unit holds its GPU."""
        return any(map(holds_gpu, self.own_pods(unit)))


def own_pods(unit: ResourceView, pods: Sequence[Manifest]) -> list[Manifest]:
    """Return the pods of exactly this unit; an earlier unit of its name may have left others.

    A pod that lost the label with its unit's UID is known by the name: it holds its GPU as well.
    """

    def is_own(pod: Manifest) -> bool:
        uid = read(pod, "metadata", "labels", UNIT_UID_LABEL)
        name: object = read(pod, "metadata", "labels", UNIT_LABEL)
        return bool(uid == unit.uid if uid else name == unit.name)

    return [pod for pod in pods if is_own(pod)]


def written_for(deployment: Manifest) -> int:
    """Return the generation of the unit that its Deployment was last written for; 0 if none."""
    mark = str(read(deployment, "metadata", "annotations", GENERATION_ANNOTATION))
    return int(mark) if re.fullmatch("[0-9]{1,9}", mark) else 0


def is_at_rest(unit: ResourceView, deployment: Manifest) -> bool:
    """Return whether the planner scaled the Deployment to zero for `unit` as it is.

    Rule `stamp` of the hand-over: only then is every older decision to scale it up refused, since
    each was made on an older version of the Deployment. A start waits for this.
    """
    is_at_zero: bool = read(deployment, "spec", "replicas") == 0
    return is_at_zero and written_for(deployment) == unit.generation
