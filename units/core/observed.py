"""The observed state of a GPU unit: its objects and its hand-over source. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from typing_extensions import override

from gpuplatform.kube.fields import field as read
from gpuplatform.kube.kinds import DEPLOYMENT, JOB, Manifest, ResourceKind
from gpuplatform.planning.ownership import UNIT_LABEL
from gpuplatform.planning.plan import Absent, Observation, Present
from gpuplatform.planning.view import ResourceView
from gpuplatform.workloads.holders import NodeRecord, holds_gpu
from gpuplatform.workloads.owner import Children
from units.core.names import UNIT_UID_LABEL
from units.core.sources import NoSource, Source

_NO_EVENTS: Final[Present[Sequence[Manifest]]] = Present(())


@dataclass(frozen=True, slots=True)
class ObservedUnit(Children):
    """The observed state of one unit in either role."""

    job: Observation[Manifest] = field(default_factory=Absent)
    """The Job; absent also if the spec of the unit never required one."""
    kind: ResourceKind = DEPLOYMENT
    is_outdated: bool = False
    """Whether the unit changed after it was read, and before its Job was read."""
    source: Source = field(default_factory=NoSource)
    is_start_void: bool = False
    """Whether the last operation applied to the unit is a start that failed or was cancelled."""
    consumed_by: str = ""
    """For stock: UID of the unit that consumed it, from its row, or an empty string."""
    node: NodeRecord | None = None
    """The last known node of the pod of the unit, or `None` if it is not known."""
    source_node: NodeRecord | None = None
    """The node of the source, or `None` if it is not known."""
    claimed_at: datetime | None = None
    """The time at which the operation that last started the unit was accepted, if it is known."""
    pod_events: Observation[Sequence[Manifest]] = _NO_EVENTS
    """The Events about the pods, if an image pull may delay the start."""

    @override
    def workloads(self) -> Sequence[tuple[ResourceKind, Observation[Manifest]]]:
        """Return the objects that run pods, by kind."""
        return ((DEPLOYMENT, self.deployment), (JOB, self.job))

    def live(self, kind: ResourceKind) -> Manifest:
        """Return the Deployment or the Job, or an empty dict if it is absent or unknown."""
        found = dict(self.workloads())[kind]
        return found.value if isinstance(found, Present) else {}

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
