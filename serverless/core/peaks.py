"""The maximum number of workers that each function needed recently. Pure."""

from collections import deque
from dataclasses import dataclass, field


@dataclass(slots=True)
class _History:
    began: float
    needs: deque[tuple[float, int]] = field(default_factory=deque)
    """Times and numbers of workers. A number removes earlier numbers that are not larger."""


class Peaks:
    """The maximum in a sliding window of time, for each function."""

    def __init__(self) -> None:
        """Start with an empty history."""
        self._histories: dict[int, _History] = {}

    def add(self, function: int, needed: int, *, now: float, seconds: float) -> int | None:
        """Add the number of workers that a function needs at the time `now`.

        Returns:
            The maximum number of the last `seconds`, or `None` if the history is shorter.
        """
        history = self._histories.setdefault(function, _History(began=now))
        needs = history.needs
        while needs and needs[-1][1] <= needed:
            needs.pop()
        needs.append((now, needed))
        while needs[0][0] < now - seconds:
            needs.popleft()
        return needs[0][1] if now - history.began >= seconds else None
