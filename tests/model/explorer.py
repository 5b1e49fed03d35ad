"""Breadth-first exploration of all transitions, so that a trace is a shortest one."""

from collections import defaultdict, deque
from dataclasses import dataclass, field

from typing_extensions import override

from tests.model.properties import unsettled, violation
from tests.model.state import Config, State, initial
from tests.model.transitions import successors


@dataclass(frozen=True)
class Finding:
    """The result of an exploration."""

    states: int
    fault: str = ""
    trace: list[str] = field(default_factory=list)
    is_whole: bool = True
    """`False` if the limit was reached before the end of the exploration."""

    @override
    def __str__(self) -> str:
        if not self.fault:
            return f"clean in {self.states} states{'' if self.is_whole else ', not all of them'}"
        lines = [f"{number:3} {line}" for number, line in enumerate(self.trace, 1)]
        return "\n".join([self.fault, *lines])


class Exploration:
    """The exploration of one scenario."""

    def __init__(self, config: Config) -> None:
        self.config = config
        start = initial(config)
        self.known: dict[State, int] = {start: 0}
        self.parents: list[tuple[int, str]] = [(-1, "")]
        self.into: defaultdict[int, list[int]] = defaultdict(list)
        """Reversed fault-free moves: liveness must not depend on a fault."""
        self.good: list[int] = []
        self.todo: deque[State] = deque([start])

    def run(self, limit: int) -> Finding:
        """Explore all states, or `limit` states."""
        while self.todo:
            state = self.todo.popleft()
            number = self.known[state]
            broken = violation(state, self.config)
            if broken:
                return Finding(len(self.known), broken, self._trace(number))
            if not unsettled(state, self.config):
                self.good.append(number)
            self._expand(state, number)
            if len(self.known) > limit:
                return Finding(len(self.known), is_whole=False)
        return self._liveness()

    def _expand(self, state: State, number: int) -> None:
        for move in successors(state, self.config):
            following = self.known.get(move.state)
            if following is None:
                following = self.known[move.state] = len(self.parents)
                words = " ".join(str(part) for part in move.label)
                self.parents.append((number, words))
                self.todo.append(move.state)
            if not move.fault and following != number:
                self.into[following].append(number)

    def _liveness(self) -> Finding:
        """A settled state must be reachable from every state without a further fault."""
        reaches = set(self.good)
        todo = list(reaches)
        while todo:
            for before in self.into[todo.pop()]:
                if before not in reaches:
                    reaches.add(before)
                    todo.append(before)
        stuck = [number for number in range(len(self.parents)) if number not in reaches]
        if not stuck:
            return Finding(len(self.known))
        states = list(self.known)
        ends = {before for number in stuck for before in self.into[number]}
        end = next((number for number in stuck if number not in ends), stuck[0])
        words = f"for ever: {unsettled(states[end], self.config)}"
        return Finding(len(self.known), words, self._trace(stuck[0]))

    def _trace(self, number: int) -> list[str]:
        path = []
        while number > 0:
            number, words = self.parents[number]
            path.append(words)
        return path[::-1]
