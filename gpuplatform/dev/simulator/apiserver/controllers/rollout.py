"""Computation of the replicas of each ReplicaSet during a rolling update. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from gpuplatform.dev.simulator.apiserver.objects import Manifest


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of a rolling update: desired replicas, maximum surge and maximum unavailable."""

    desired: int
    surge: int
    unavailable: int

    @classmethod
    def of(cls, deployment: Manifest) -> "Bounds":
        """Read `spec.strategy`. Percentages are rounded up for surge and down for unavailable."""
        spec = deployment["spec"]
        rolling = spec["strategy"].get("rollingUpdate")
        desired = spec["replicas"]
        if rolling is None:
            return cls(desired, 0, 0)
        surge = _resolve(rolling["maxSurge"], desired, up=True)
        unavailable = _resolve(rolling["maxUnavailable"], desired, up=False)
        return cls(desired, surge, min(unavailable, desired) if surge or unavailable else 1)

    @property
    def min_available(self) -> int:
        """Minimum number of available replicas."""
        return self.desired - self.unavailable


def _resolve(value: int | str, desired: int, *, up: bool) -> int:
    if isinstance(value, int):
        return value
    product = desired * int(value.rstrip("%"))
    return -(-product // 100) if up else product // 100


@dataclass(frozen=True, slots=True)
class Size:
    """The number of desired and available replicas of a ReplicaSet."""

    name: str
    replicas: int
    available: int


def new_size(bounds: Bounds, new: Size, old: Sequence[Size]) -> int:
    """Return the number of replicas to set for the new ReplicaSet."""
    if new.replicas >= bounds.desired:
        return bounds.desired
    room = bounds.desired + bounds.surge - new.replicas - sum(s.replicas for s in old)
    return new.replicas + max(0, min(room, bounds.desired - new.replicas))


def old_sizes(bounds: Bounds, new: Size, old: Sequence[Size]) -> dict[str, int]:
    """Return the number of replicas to set for each old ReplicaSet, by name.

    Unhealthy replicas are removed first, then replicas of the oldest ReplicaSets.
    """
    total = new.replicas + sum(s.replicas for s in old)
    room = total - bounds.min_available - (new.replicas - new.available)
    sizes = {s.name: s.replicas for s in old}
    for size in old:
        down = min(max(room, 0), size.replicas - size.available)
        sizes[size.name] -= max(down, 0)
        room -= max(down, 0)
    spare = new.available + sum(s.available for s in old) - bounds.min_available
    for size in old:
        down = min(max(min(spare, room), 0), sizes[size.name])
        sizes[size.name] -= down
        spare, room = spare - down, room - down
    return sizes
