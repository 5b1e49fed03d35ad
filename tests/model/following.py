"""Following somebody through the model: each step that is told has to be one that it has then.

The model follows with every state that it could be in by then. What nobody tells (a copy by the
mirror, pods that end) may happen meanwhile.
"""

from typing_extensions import override

from tests.model.state import FAULTS, RULES, Config, Request, State, initial
from tests.model.transitions import successors
from tests.model.workers import Move

Event = tuple[object, ...]
Picture = tuple[tuple[str, ...], tuple[object, ...], tuple[object, ...], tuple[str, ...]]
"""Operations, rows of stock, units in the cluster, rows of units: what can be compared."""

ENOUGH = 9
"""Of each fault: those that are told count, not how many."""

_GONE_ALREADY = {"get": "gone", "read": "gone"}
"""What costs no call where the row says it: a step that the code need not be seen doing."""


class Follower:
    """The states that the model can be in after what was told."""

    def __init__(self, requests: tuple[Request, ...], stock: int) -> None:
        self.config = Config(requests, stock, (ENOUGH,) * len(FAULTS), frozenset(RULES))
        start = initial(self.config)
        self.stock = len(start.rows)
        self.states = self._spread({start})
        self.told: list[Event] = []

    def tell(self, *event: object) -> None:
        """Follow one step; fail where the model has none of that name now."""
        self.told.append(event)
        after = {
            move.state
            for state in self.states
            for move in successors(state, self.config)
            if move.label[: len(event)] == event
        }
        assert after, f"the model has no such step now: {self}"
        self.states = self._spread(after)

    def agree(self, picture: Picture) -> None:
        """Keep the states that look like this; fail where none does."""
        seen = {state for state in self.states if _picture(state) == picture}
        known = {_picture(state) for state in self.states}
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
        return ", ".join(" ".join(map(str, event)) for event in self.told)


def _is_unseen(move: Move) -> bool:
    head = str(move.label[0])
    is_costless = head in _GONE_ALREADY and move.label[-1] == _GONE_ALREADY[head]
    happens = head in {"mirror", "giveup"} or head.startswith("pods of")
    return not move.fault and (is_costless or happens)


def _picture(state: State) -> Picture:
    rows: list[object] = []
    for row in state.rows:
        held = ("consumed", row.eater[0]) if row.eater else ("claimed", row.op) if row.op else ()
        rows.append(held or {"-": "-", "P": "made", "R": "free", "D": "gone"}[row.phase])
    units = tuple(
        (unit.op, unit.off, unit.src, (None, 1, 0, 0)[unit.dep]) if unit.uid else ()
        for unit in state.units
    )
    urows = tuple(
        {"-": "-", "D": "gone"}.get(row.phase) or ("made" if row.uid else "asked")
        for row in state.urows
    )
    return tuple(op.phase for op in state.ops[1:]), tuple(rows), units, urows
