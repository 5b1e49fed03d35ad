"""The observed state of a GPU unit: its objects and its hand-over source. Pure."""

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
    """The observed state of one unit in either role."""

    source: Source = field(default_factory=NoSource)
    is_start_void: bool = False
    """Whether the last operation applied to the unit is a start that failed or was cancelled."""
    consumed_by: str = ""
    """For stock: UID of the unit that consumed it, from its row, or an empty string."""
    short_nodes: Sequence[Shortage] = ()
    """The nodes with a GPU shortage."""

    def own_pods(self, unit: ResourceView) -> list[Manifest]:
        """Return the pods of exactly this unit; an empty list if the pods are unknown."""
        return own_pods(unit, self.pods.value) if isinstance(self.pods, Present) else []

    def has_gpu(self, unit: ResourceView) -> bool:
        """Return whether a pod of exactly this unit holds GPUs."""
        return any(map(holds_gpu, self.own_pods(unit)))


def own_pods(unit: ResourceView, pods: Sequence[Manifest]) -> list[Manifest]:
    """Return the pods of exactly this unit, without pods of a deleted unit with the same name.

    A pod without the UID label is matched by the name of the unit, because it may hold GPUs.
    """

    def is_own(pod: Manifest) -> bool:
        uid = read(pod, "metadata", "labels", UNIT_UID_LABEL)
        name: object = read(pod, "metadata", "labels", UNIT_LABEL)
        return bool(uid == unit.uid if uid else name == unit.name)

    return [pod for pod in pods if is_own(pod)]


def written_for(deployment: Manifest) -> int:
    """Return the generation of the unit for which `deployment` was written; 0 if unknown."""
    mark = str(read(deployment, "metadata", "annotations", GENERATION_ANNOTATION))
    return int(mark) if re.fullmatch("[0-9]{1,9}", mark) else 0


def is_at_rest(unit: ResourceView, deployment: Manifest) -> bool:
    """Return whether the planner scaled the Deployment to zero for this generation of `unit`.

    A start waits for this (rule `stamp` of the hand-over). Every earlier decision to scale up was
    based on an older version of the Deployment, so that the cluster rejects its late write.
    """
    is_at_zero: bool = read(deployment, "spec", "replicas") == 0
    return is_at_zero and written_for(deployment) == unit.generation
