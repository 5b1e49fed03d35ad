"""The objects that a stock pool owns, as one run of its reconciler read them. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from gpuplatform.kube.kinds import Manifest
from gpuplatform.planning.plan import Observation


@dataclass(frozen=True, slots=True)
class ObservedPool:
    """What a pool's resource owns, as it was read in one run."""

    deployment: Observation[Manifest]
    service: Observation[Manifest]
    pods: Observation[Sequence[Manifest]]
    at: datetime | None = None
    """When it was read; without it there is no time of grace."""
