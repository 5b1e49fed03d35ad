"""Follows an implementation in the model: each reported step must be enabled in the model.

The follower keeps all states that the model can be in. Steps that are not reported (a copy by the
mirror, pods that end) may happen at any time.
"""

from typing_extensions import override

from tests.model.state import FAULTS, RULES, Config, Request, State, initial
from tests.model.transitions import successors
from tests.model.workers import Move

Event = tuple[object, ...]
Picture = tuple[tuple[str, ...], tuple[object, ...], tuple[object, ...], tuple[str, ...]]
"""The comparable parts: operations, rows of stock, units in the cluster, rows of units."""

ENOUGH = 9
"""The budget of each fault: reported faults are not limited."""

_GONE_ALREADY = {"get": "gone", "read": "gone"}
"""Steps without a call if the row has the answer: the code need not report them."""


class Follower:
    """The possible states of the model after the reported steps."""

    def __init__(
        self, requests: tuple[Request, ...], stock: int, *, has_jobs: bool = False
    ) -> None:
        self._at_zero = 0 if has_jobs else None
        self.config = Config(requests, stock, (ENOUGH,) * len(FAULTS), frozenset(RULES))
        start = initial(self.config)
        self.stock = len(start.rows)
        self.states = self._spread({start})
        self.reported: list[Event] = []

    def tell(self, *event: object) -> None:
        """Follow one step; fail if no such step is enabled in the model."""
        self.reported.append(event)
        after = {
            move.state
            for state in self.states
            for move in successors(state, self.config)
            if move.label[: len(event)] == event
        }
        assert after, f"the model has no such step now: {self}"
        self.states = self._spread(after)

    def agree(self, picture: Picture) -> None:
        """Keep the states with this picture; fail if there are none."""
        seen = {state for state in self.states if _picture(state, self._at_zero) == picture}
        known = {_picture(state, self._at_zero) for state in self.states}
        assert seen, f"seen {picture}, and the model has {known} after: {self}"
        self.states = self._spread(seen)

    def _spread(self, states: set[State]) -> set[State]:
        todo, known = list(states), set(states)
        while todo:
            for move in successors(todo.pop(), self.config):
                if _is_unseen(move) and move.state not in known:
                    known.add(move.state)
                    todo.append(move.state)
        return known

    @override
    def __str__(self) -> str:
        return ", ".join(" ".join(map(str, event)) for event in self.reported)


def _is_unseen(move: Move) -> bool:
    head = str(move.label[0])
    is_costless = head in _GONE_ALREADY and move.label[-1] == _GONE_ALREADY[head]
    is_of_cluster = head.startswith(("pods of", "the ReplicaSet of"))
    happens = head in {"mirror", "giveup"} or is_of_cluster
    return not move.fault and (is_costless or happens)


def _picture(state: State, at_zero: int | None) -> Picture:
    """Return what can be compared; an absent Job, one at zero and an ended one look alike."""
    rows: list[object] = []
    for row in state.rows:
        held = ("consumed", row.eater[0]) if row.eater else ("claimed", row.op) if row.op else ()
        rows.append(held or {"-": "-", "P": "made", "R": "free", "D": "gone"}[row.phase])
    units = tuple(
        (unit.op, unit.off, unit.src, (at_zero, 1, 0, 0, 0)[unit.dep]) if unit.uid else ()
        for unit in state.units
    )
    urows = tuple(
        {"-": "-", "D": "gone"}.get(row.phase) or ("made" if row.uid else "asked")
        for row in state.urows
    )
    return tuple(op.phase for op in state.ops[1:]), tuple(rows), units, urows
