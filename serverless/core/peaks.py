"""How many workers were needed most during the last while, for each function. Pure."""

from collections import deque
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Watched:
    began: float
    needs: deque[tuple[float, int]] = field(default_factory=deque)
    """Falling: what a later, higher need made meaningless is dropped, so there are few."""


class Peaks:
    """Remembers needs; what was not watched for long enough is not known."""

    def __init__(self) -> None:
        """Nothing is known at first."""
        self._watched: dict[int, _Watched] = {}

    def add(self, function: int, needed: int, *, now: float, seconds: float) -> int | None:
        """Note what is needed now.

        Returns:
            The most that was needed during the last `seconds`; None while that is not known.
        """
        watched = self._watched.setdefault(function, _Watched(began=now))
        needs = watched.needs
        while needs and needs[-1][1] <= needed:
            needs.pop()
        needs.append((now, needed))
        while needs[0][0] < now - seconds:
            needs.popleft()
        return needs[0][1] if now - watched.began >= seconds else None
