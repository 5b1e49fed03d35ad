"""Safety invariants, and the conditions of a settled state."""

from collections.abc import Iterator

from tests.model.state import Config, Op, Request, State, Unit, is_leftover, is_stopped


def violation(state: State, config: Config) -> str:
    """Return the first violated safety invariant, or an empty string."""
    for broken in (_consumptions, _units, _runs, _rows, _ends):
        for words in broken(state, config):
            return words
    return ""


def _consumptions(state: State, _config: Config) -> Iterator[str]:
    for one in state.used:
        for other in state.used:
            if one[:2] == other[:2] and one[2:4] != other[2:4]:
                yield "two units consumed one stock unit"
            if one[4] == other[4] and one[2:4] != other[2:4]:
                yield "one operation made two units that consumed"
        if state.ops[one[4]].phase == "F":
            yield "stock was consumed by an operation that failed"


def _units(state: State, config: Config) -> Iterator[str]:
    for unit in state.units:
        if not unit.uid:
            continue
        if unit.src >= 0 and unit.dep == 1 and state.stock[unit.src].pod == unit.srcuid:
            yield "a unit runs while the pods of its stock hold the GPU"
        if unit.src >= 0 and unit.op and _is_robbed(state, unit, config):
            yield "stock is free although a unit consumes it"
        if unit.op and not unit.by_hand:
            yield from _undone(state, config, unit)


def _is_robbed(state: State, unit: Unit, config: Config) -> bool:
    row = state.rows[unit.src]
    is_its = state.ops[unit.op].phase == "S" and not is_leftover(state, unit) and not unit.by_hand
    runs = is_its and not is_stopped(state, unit, config)
    return runs and row.is_free and row.uid == unit.srcuid


def _undone(state: State, config: Config, unit: Unit) -> Iterator[str]:
    """An older operation must not undo the last operation that succeeded."""
    last = ""
    for op, request in _asked(state, config):
        if op.target != unit.op or op.phase == "-":
            continue
        if request.kind == "delete" and op.phase == "S" and unit.dep == 1:
            yield "a deleted unit runs again"
        if request.kind in {"stop", "start"}:
            last = request.kind if op.phase == "S" else ""
    if last == "stop" and not unit.off and unit.dep == 1:
        yield "a stopped unit runs again"
    if last == "start" and unit.off:
        yield "a started unit is stopped again"


def _runs(state: State, _config: Config) -> Iterator[str]:
    for name, uid, *source in state.ends:
        unit = state.units[name]
        if unit.dep == 1 and (unit.uid, unit.src, unit.srcuid) == (uid, *source):
            yield "a program that has ended runs again"


def _rows(state: State, _config: Config) -> Iterator[str]:
    for stock, row in zip(state.stock, state.rows, strict=True):
        is_lost = row.uid and not row.eater and stock.uid != row.uid
        if is_lost and not state.meddled.startswith("stock"):
            yield "stock is gone that nobody consumed"


def _ends(state: State, config: Config) -> Iterator[str]:
    for number, (op, request) in enumerate(_asked(state, config), 1):
        if request.kind != "create":
            continue
        is_gone = op.phase == "S" and state.units[request.name].uid != op.uid
        if is_gone and not _is_deleted(state, config, number) and state.meddled != "unit":
            yield "a unit is gone that nobody deleted"
        if op.phase == "F" and op.why == "capacity" and not state.meddled.startswith("stock"):
            yield "an accepted create found no stock"
        if op.phase == "F" and op.why == "name" and state.meddled != "unit":
            yield "an accepted create failed on a name that nobody else took"


def _is_deleted(state: State, config: Config, create: int) -> bool:
    return any(
        one.kind == "delete" and op.phase != "-" and op.target == create
        for op, one in _asked(state, config)
    )


def _asked(state: State, config: Config) -> Iterator[tuple[Op, Request]]:
    return zip(state.ops[1:], config.requests, strict=True)


def unsettled(state: State, config: Config) -> str:
    """Return an open operation or a leak; empty if the state is settled."""
    if state.workers or state.held or any(op.phase == "P" for op in state.ops):
        return "an operation stays open"
    for found in (_unsettled_stock(state), _unsettled_units(state, config)):
        for words in found:
            return words
    return ""


def _unsettled_stock(state: State) -> Iterator[str]:
    for number, (stock, row) in enumerate(zip(state.stock, state.rows, strict=True)):
        if stock.uid and not (row.uid == stock.uid and row.is_free):
            yield f"stock {number} is there and cannot be claimed"
        if not stock.uid and row.phase in "PR":
            yield f"the row of stock {number} has no resource"


def _unsettled_units(state: State, config: Config) -> Iterator[str]:
    for name, (unit, row) in enumerate(zip(state.units, state.urows, strict=True)):
        if not unit.uid and row.phase in "PRT":
            yield f"the row of unit {name} has no resource"
        if unit.uid and unit.op and not unit.by_hand:
            if row.phase not in "RT" or row.uid != unit.uid:
                yield f"unit {name} has no row"
            yield from _unfinished(state, config, name, unit)


def _unfinished(state: State, config: Config, name: int, unit: Unit) -> Iterator[str]:
    has_run = unit.dep in {1, 4}
    is_wrong = has_run == is_stopped(state, unit, config) or unit.dep == 3
    if is_leftover(state, unit) or is_wrong:
        yield f"unit {name} stays unfinished"
    for op, request in _asked(state, config):
        if request == ("delete", name) and op.phase == "S" and op.target == unit.op:
            yield f"unit {name} is there although its deletion succeeded"
