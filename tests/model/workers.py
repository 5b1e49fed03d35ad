"""The steps of the API and of workers: one transaction or one call per step.

The steps correspond to `units/operations`: `get` begins a run of `execute`, and a checkpoint
(`assign`) begins it again.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.model.state import (
    Config,
    Op,
    Request,
    Row,
    State,
    Stock,
    Unit,
    UnitRow,
    Worker,
    claim,
    claimed,
    freed,
    is_leftover,
    is_stopped,
    with_op,
    with_row,
    with_stock,
    with_unit,
    with_urow,
    with_worker,
    without_unit,
)

REASONS = {"name": -4, "capacity": -1, "refused": -2, "gone": -3, "superseded": -5}
_WHY = {number: reason for reason, number in REASONS.items()}
WRITES_OF_ROWS = ("succeed", "fail", "assign", "done")
SUPERSEDED_BY = {"create": ("delete",), "start": ("delete", "stop")}
"""Operations that supersede a waiting operation if they are accepted later."""


class Move(NamedTuple):
    """An enabled transition."""

    label: tuple[object, ...]
    state: State
    fault: str = ""
    writes: bool = False


def accept(state: State, config: Config) -> Iterator[Move]:
    """The API: one transaction. A rejection does not change the state."""
    for number, request in enumerate(config.requests, 1):
        earlier = list(enumerate(config.requests[: number - 1], 1))
        if state.ops[number].phase != "-" or any(
            state.ops[other].phase == "-" and _is_before(before, request)
            for other, before in earlier
        ):
            continue
        taken = _accepted(state, number, request)
        if taken is not None:
            yield Move(("accept", number, *request), taken)


def _is_before(before: Request, request: Request) -> bool:
    is_same_unit = before.name == request.name and before.kind != "seed"
    return is_same_unit or (before.kind == request.kind == "create")


def _accepted(state: State, number: int, request: Request) -> State | None:
    kind, name = request
    if kind == "seed":
        return with_row(with_op(state, number, Op("P")), name, Row("P"))
    row, unit = state.urows[name], state.units[name]
    got = claim(state, number) if kind in {"create", "start"} else None
    if kind == "create":
        if got is None or row.phase not in "-D":
            return None
        return with_urow(with_op(got[1], number, Op("P")), name, UnitRow("P", 0, number))
    if row.phase not in "PR":
        return None
    # A start without ready stock is accepted and waits.
    after = got[1] if got else state
    seen = unit.uid if unit.op == row.op else 0
    after = with_op(after, number, Op("P", seen, row.op))
    return with_urow(after, name, row._replace(phase="T")) if kind == "delete" else after


def grant(state: State, config: Config) -> Iterator[Move]:
    """The matcher: one transaction gives a free row to an operation without existing stock."""
    for number, request in enumerate(config.requests, 1):
        if state.ops[number].phase != "P" or request.kind not in {"create", "start"}:
            continue
        lost = claimed(state, number)
        if lost >= 0 and state.stock[lost].uid == state.rows[lost].uid:
            continue
        got = claim(_abandoned(state, number, lost, config), number, but=lost)
        if got is not None:
            yield Move(("grant", number, got[0]), got[1])


def _abandoned(state: State, number: int, lost: int, config: Config) -> State:
    """Return the state without the claim of a row whose resource does not exist."""
    if lost < 0 or state.rows[lost].op != number:
        return state
    phase = "D" if config.has("gonerow") else state.rows[lost].phase
    return with_row(state, lost, state.rows[lost]._replace(op=0, phase=phase))


def take(state: State, config: Config) -> Iterator[Move]:
    """A worker claims an operation without a lease."""
    if len(state.workers) >= config.workers:
        return
    for number, request in enumerate(config.requests, 1):
        is_held = any(one.op == number and one.valid for one in state.workers)
        if state.ops[number].phase != "P" or is_held:
            continue
        if (
            config.has("order")
            and request.kind != "seed"
            and any(
                state.ops[other].phase == "P" and before.name == request.name
                for other, before in enumerate(config.requests[: number - 1], 1)
                if before.kind != "seed"
            )
        ):
            continue
        pc = "seed" if request.kind == "seed" else "get"
        if request.kind == "create" and not config.has("getfirst"):
            pc = "read"
        worker = Worker(number, pc, *_assigned(state, number))
        yield Move(("take", number), with_worker(state, len(state.workers), worker))


def _assigned(state: State, number: int) -> tuple[int, int]:
    stock = claimed(state, number)
    return stock, state.rows[stock].uid if stock >= 0 else 0


@dataclass(frozen=True)
class Turn:
    """One worker in one state."""

    state: State
    config: Config
    worker: Worker

    @property
    def number(self) -> int:
        """Its operation."""
        return self.worker.op

    @property
    def request(self) -> Request:
        """The request of its operation."""
        return self.config.requests[self.number - 1]

    @property
    def op(self) -> Op:
        """The row of its operation."""
        return self.state.ops[self.number]

    @property
    def unit(self) -> Unit:
        """The resource with its name."""
        return self.state.units[self.request.name]

    def go(self, pc: str, state: State | None = None, **changes: Any) -> State:
        """Return the state in which its next step is `pc`."""
        after = state if state is not None else self.state
        worker = self.worker
        if worker not in after.workers:  # Its own write changed the version.
            worker = worker._replace(fresh=False)
        changed = self.worker._replace(**{"fresh": False, **changes, "pc": pc})
        return with_worker(after, after.workers.index(worker), changed)

    def reading(self, stock: int) -> "Turn":
        """Return the turn of the worker that begins again with another claim."""
        suid = self.state.rows[stock].uid
        state = self.go("get", s=stock, suid=suid, uid=0)
        worker = self.worker._replace(pc="get", s=stock, suid=suid, uid=0, fresh=False)
        return Turn(state, self.config, worker)

    def leave(self, state: State | None = None) -> State:
        """Return the state in which it has ended."""
        after = state if state is not None else self.state
        return with_worker(after, after.workers.index(self.worker), None)

    def fail(self, reason: str) -> State:
        """Return the state before it fails the operation."""
        return self.go("fail", uid=REASONS[reason])

    def succeed(self) -> State:
        """Return the state before it succeeds with the unit that it read."""
        unit = self.unit
        return self.go("succeed", uid=unit.uid, s=unit.src, suid=unit.srcuid)


def step(state: State, index: int, config: Config) -> Iterator[Move]:
    """Return the enabled steps of the worker."""
    turn = Turn(state, config, state.workers[index])
    pc = turn.worker.pc
    if pc in WRITES_OF_ROWS and not turn.worker.valid and config.has("token"):
        yield Move(("refused", turn.number, pc), turn.leave())
    else:
        yield from _STEPS[pc](turn)


def _get(turn: Turn) -> Iterator[Move]:
    kind = turn.request.kind
    if kind == "create":
        yield _get_to_create(turn)
        return
    op, unit, config = turn.op, turn.unit, turn.config
    uid = turn.state.ops[op.target].uid if config.has("recorduid") else op.uid
    label = ("get", turn.number)
    if not unit.uid or unit.uid != uid:
        yield Move((*label, "gone"), turn.fail("gone") if kind == "start" else turn.go("done"))
    elif _is_applied(turn) or (kind == "start" and not _may_start(turn)):
        yield Move((*label, "done"), turn.succeed() if kind == "start" else turn.go("done"))
    elif kind == "start" and config.has("startwaits") and _is_stopping(turn):
        yield Move((*label, "still stopping"), turn.go("wait"))
    else:
        following = {"start": "read", "stop": "patch", "delete": "delete"}[kind]
        yield Move((*label, "there"), turn.go(following, uid=uid, fresh=kind != "delete"))


def _get_to_create(turn: Turn) -> Move:
    unit, op, label = turn.unit, turn.op, ("get", turn.number)
    if not unit.uid:
        return Move((*label, "absent"), turn.go("read"))
    if unit.op == turn.number and (op.phase == "P" or op.uid == unit.uid):
        return Move((*label, "ours"), turn.succeed())
    if turn.config.has("leftover") and is_leftover(turn.state, unit):
        return Move((*label, "a leftover"), turn.leave())
    return Move((*label, "foreign"), turn.fail("name"))


def _is_applied(turn: Turn) -> bool:
    is_change = turn.request.kind in {"stop", "start"}
    return is_change and turn.config.has("applied") and turn.unit.applied >= turn.number


def _may_start(turn: Turn) -> bool:
    return is_stopped(turn.state, turn.unit, turn.config) or turn.unit.dep == 4


def _is_stopping(turn: Turn) -> bool:
    unit = turn.unit
    if not is_stopped(turn.state, unit, turn.config):
        return False  # Its program has ended.
    is_of_before = unit.stamp != unit.gen and turn.config.has("stamp")
    if unit.dep == 2:
        return is_of_before
    return unit.dep > 0 or turn.config.has("zero")


def _read(turn: Turn) -> Iterator[Move]:
    number, worker = turn.worker.s, turn.worker
    if number >= 0 and turn.state.stock[number].uid == worker.suid:
        following = "post" if turn.request.kind == "create" else "patch"
        yield Move(("read", turn.number, "there"), turn.go(following, fresh=worker.fresh))
    else:
        yield Move(("read", turn.number, "gone"), turn.go("assign"))


def _assign(turn: Turn) -> Iterator[Move]:
    state, first = turn.state, turn.worker.s
    granted = claimed(state, turn.number)
    if granted not in {-1, first}:  # The matcher granted other stock since the claim was read.
        yield from _get(turn.reading(granted))
        return
    state = _abandoned(state, turn.number, first, turn.config)
    got = claim(state, turn.number, but=first)
    if got is None:
        yield from _wait(turn)
        yield Move(("giveup", turn.number), turn.fail("capacity"))
        return
    if _is_superseded(turn):  # The later operation has closed the request of this one.
        yield Move(("superseded", turn.number), turn.fail("superseded"))
    stock, after = got
    again = "get" if turn.config.has("getfirst") or turn.request.kind == "start" else "read"
    suid = after.rows[stock].uid
    yield Move(
        ("assign", turn.number, stock), turn.go(again, after, s=stock, suid=suid), writes=True
    )


def _is_superseded(turn: Turn) -> bool:
    later = zip(
        turn.state.ops[turn.number + 1 :], turn.config.requests[turn.number :], strict=True
    )
    return any(
        op.phase == "P"
        and one.name == turn.request.name
        and one.kind in SUPERSEDED_BY[turn.request.kind]
        for op, one in later
    )


def _wait(turn: Turn) -> Iterator[Move]:
    if _is_superseded(turn):
        yield Move(("superseded", turn.number), turn.fail("superseded"))
    else:
        yield Move(("wait", turn.number), turn.leave())


def _post(turn: Turn) -> Iterator[Move]:
    state, unit, worker, name = turn.state, turn.unit, turn.worker, turn.request.name
    if unit.uid:
        yield Move(("exists", turn.number), turn.leave())
        return
    uid = unit.last + 1
    made = Unit(uid, turn.number, worker.s, worker.suid, applied=turn.number, last=uid)
    after = turn.go("succeed", with_unit(state, name, made), uid=uid)
    yield Move(("post", turn.number, worker.s), after, writes=True)
    yield Move(("deny", turn.number), turn.fail("refused"), fault="refuse")


def _patch(turn: Turn) -> Iterator[Move]:
    unit, worker, name = turn.unit, turn.worker, turn.request.name
    if unit.uid != worker.uid or (turn.config.has("rvpatch") and not worker.fresh):
        yield Move(("conflict", turn.number), turn.leave())
    elif turn.request.kind == "stop":
        gen = unit.gen + (not unit.off)
        changed = unit._replace(off=True, gen=gen, applied=turn.number)
        stopped = with_unit(turn.state, name, changed)
        yield Move(("stop", turn.number), turn.go("done", stopped), writes=True)
    else:
        started = unit._replace(off=False, gen=unit.gen + unit.off, applied=turn.number)
        dep = 0 if unit.dep == 4 else unit.dep
        started = started._replace(src=worker.s, srcuid=worker.suid, dep=dep)
        after = turn.go("succeed", with_unit(turn.state, name, started))
        yield Move(("start", turn.number, worker.s), after, writes=True)
        yield Move(("deny", turn.number), turn.fail("refused"), fault="refuse")


def _delete(turn: Turn) -> Iterator[Move]:
    unit = turn.unit
    hits = unit.uid == turn.worker.uid or (unit.uid and not turn.config.has("uidunit"))
    after = without_unit(turn.state, turn.request.name) if hits else turn.state
    yield Move(("delete", turn.number), turn.go("done", after), writes=True)


def _seed(turn: Turn) -> Iterator[Move]:
    name = turn.request.name
    stock = turn.state.stock[name]
    uid = stock.uid or stock.last + 1
    after = turn.state if stock.uid else with_stock(turn.state, name, Stock(uid, uid, uid, uid))
    yield Move(("seed", turn.number), turn.go("done", after, uid=uid), writes=True)
    if not stock.uid:
        yield Move(("deny", turn.number), turn.fail("refused"), fault="refuse")


def _fail(turn: Turn) -> Iterator[Move]:
    state, name, kind = turn.state, turn.request.name, turn.request.kind
    why = _WHY.get(turn.worker.uid, "name")
    after = with_op(state, turn.number, turn.op._replace(phase="F", why=why))
    after = after._replace(rows=freed(after.rows, turn.number))
    if kind == "seed" and not after.rows[name].uid:
        after = with_row(after, name, Row("D"))
    if kind == "create" and after.urows[name] == UnitRow(after.urows[name].phase, 0, turn.number):
        after = with_urow(after, name, UnitRow("D", 0, turn.number))
    yield Move(("fail", turn.number, why), turn.leave(after), writes=True)


def _succeed(turn: Turn) -> Iterator[Move]:
    yield Move(("cancel", turn.number), turn.fail("refused"), fault="refuse")
    state, worker, name = turn.state, turn.worker, turn.request.name
    is_named = turn.config.has("named")
    stock = worker.s if is_named else claimed(state, turn.number)
    after = state
    if stock >= 0:
        row = state.rows[stock]
        may_take = row.op == turn.number or (row.phase == "D" and not row.eater and not row.op)
        if may_take and (row.uid == worker.suid or not is_named):
            eater = (name, worker.uid, turn.number)
            after = with_row(state, stock, row._replace(op=0, eater=eater))
    after = after._replace(rows=freed(after.rows, turn.number))
    urow = after.urows[name]
    if turn.request.kind == "create" and urow.op == turn.number and not urow.uid:
        phase = "R" if urow.phase == "P" else urow.phase
        after = with_urow(after, name, urow._replace(uid=worker.uid, phase=phase))
    after = with_op(after, turn.number, turn.op._replace(phase="S", uid=worker.uid))
    yield Move(("succeed", turn.number), turn.leave(after), writes=True)


def _done(turn: Turn) -> Iterator[Move]:
    state, name, kind = turn.state, turn.request.name, turn.request.kind
    after = with_op(state, turn.number, turn.op._replace(phase="S"))
    if kind == "seed" and state.rows[name] == Row("P"):
        after = with_row(after, name, Row("P", turn.worker.uid))
    if kind == "delete" and not turn.config.has("final"):
        eaten = (name, turn.worker.uid)
        rows = [
            row._replace(eater=()) if row.phase == "R" and row.eater[:2] == eaten else row
            for row in after.rows
        ]
        after = after._replace(rows=tuple(rows))
    yield Move(("succeed", turn.number), turn.leave(after), writes=True)


_STEPS: dict[str, Callable[[Turn], Iterator[Move]]] = {
    "get": _get,
    "read": _read,
    "assign": _assign,
    "wait": _wait,
    "post": _post,
    "patch": _patch,
    "delete": _delete,
    "seed": _seed,
    "fail": _fail,
    "succeed": _succeed,
    "done": _done,
}
