"""The arithmetic of a rollout: which ReplicaSet gets how many replicas. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from gpuplatform.dev.simulator.apiserver.objects import Manifest


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a rolling update may go above and below the wanted replicas."""

    wanted: int
    surge: int
    unavailable: int

    @classmethod
    def of(cls, deployment: Manifest) -> "Bounds":
        """Read spec.strategy; a percentage of surge is rounded up, one of unavailable down."""
        spec = deployment["spec"]
        rolling = spec["strategy"].get("rollingUpdate")
        wanted = spec["replicas"]
        if rolling is None:
            return cls(wanted, 0, 0)
        surge = _resolve(rolling["maxSurge"], wanted, up=True)
        unavailable = _resolve(rolling["maxUnavailable"], wanted, up=False)
        return cls(wanted, surge, min(unavailable, wanted) if surge or unavailable else 1)

    @property
    def least_available(self) -> int:
        """How many replicas must stay available."""
        return self.wanted - self.unavailable


def _resolve(value: int | str, wanted: int, *, up: bool) -> int:
    if isinstance(value, int):
        return value
    product = wanted * int(value.rstrip("%"))
    return -(-product // 100) if up else product // 100


@dataclass(frozen=True, slots=True)
class Size:
    """One ReplicaSet: replicas asked for, and available."""

    name: str
    replicas: int
    available: int


def new_size(bounds: Bounds, new: Size, old: Sequence[Size]) -> int:
    """Return the replicas that the new ReplicaSet may have now."""
    if new.replicas >= bounds.wanted:
        return bounds.wanted
    room = bounds.wanted + bounds.surge - new.replicas - sum(s.replicas for s in old)
    return new.replicas + max(0, min(room, bounds.wanted - new.replicas))


def old_sizes(bounds: Bounds, new: Size, old: Sequence[Size]) -> dict[str, int]:
    """Return the replicas that old ReplicaSets should have: unhealthy, then oldest go first."""
    total = new.replicas + sum(s.replicas for s in old)
    room = total - bounds.least_available - (new.replicas - new.available)
    sizes = {s.name: s.replicas for s in old}
    for size in old:
        down = min(max(room, 0), size.replicas - size.available)
        sizes[size.name] -= max(down, 0)
        room -= max(down, 0)
    spare = new.available + sum(s.available for s in old) - bounds.least_available
    for size in old:
        down = min(max(min(spare, room), 0), sizes[size.name])
        sizes[size.name] -= down
        spare, room = spare - down, room - down
    return sizes
