"""Planners, sweep, mirror, and a user with kubectl: their decisions, and the execution.

A decision that is executed immediately is one step; a held decision is executed at any later time.
"""

from collections.abc import Callable, Iterator

from tests.model.state import (
    Config,
    Decision,
    State,
    Stock,
    Unit,
    is_leftover,
    is_stopped,
    with_deployment,
    with_row,
    with_unit,
    with_urow,
    without_stock,
    without_unit,
)


def plans(state: State, config: Config) -> Iterator[Decision]:
    """Return the decisions of the planners of stock and of units."""
    for number, (stock, row) in enumerate(zip(state.stock, state.rows, strict=True)):
        if stock.uid and row.uid == stock.uid and row.eater:
            yield Decision("del", number, stock.uid, row.eater)
    for name, unit in enumerate(state.units):
        if unit.uid and unit.op and not unit.by_hand:
            yield from _plan_unit(state, config, name, unit)


def _plan_unit(state: State, config: Config, name: int, unit: Unit) -> Iterator[Decision]:
    if is_stopped(state, unit, config):
        is_missing = not unit.dep and config.has("zero")
        is_of_before = unit.dep in {2, 3} and unit.stamp != unit.gen and config.has("stamp")
        if unit.dep in {1, 4} or is_missing or is_of_before:
            yield Decision("undep", name, unit.uid, (unit.gen,))
        return
    if unit.dep in {1, 3} or unit.src < 0 or (unit.dep == 4 and config.has("ended")):
        return
    row, stock = state.rows[unit.src], state.stock[unit.src]
    is_consumed = row.uid == unit.srcuid and row.eater[:2] == (name, unit.uid)
    if config.has("arbiter") and not is_consumed:
        return
    if stock.uid != unit.srcuid and not _is_awaited(stock, unit.srcuid, config):
        yield Decision("dep", name, unit.uid, (unit.src, unit.srcuid, unit.applied, unit.gen))


def _is_awaited(stock: Stock, source: int, config: Config) -> bool:
    """Say whether pods of a deleted source may hold the GPU, as far as the rules look."""
    if not config.has("waitabs"):
        return False
    has_owner = stock.owner == source and config.has("noowner")
    # Without the ReplicaSet, every pod that holds the GPU is terminating.
    is_terminating = stock.pod == source != stock.owner
    if is_terminating and not config.has("terminal"):
        return False
    return has_owner or stock.pod == source


def sweeps(state: State, config: Config) -> Iterator[Decision]:
    """Return the decisions of the sweep of leftovers."""
    if not config.has("leftover"):
        return
    for number, stock in enumerate(state.stock):
        if stock.uid and stock.uid != state.rows[number].uid and _is_seeded(state, config, number):
            yield Decision("dropstock", number, stock.uid)
    for name, unit in enumerate(state.units):
        if is_leftover(state, unit):
            yield Decision("dropunit", name, unit.uid)


def _is_seeded(state: State, config: Config, number: int) -> bool:
    """Return whether the seed of this stock has ended."""
    return any(
        op.phase in "SF" and request == ("seed", number)
        for op, request in zip(state.ops[1:], config.requests, strict=True)
    )


def copies(state: State) -> Iterator[Decision]:
    """Return the next writes of the mirror: (name, observed UID, previous UID of the row)."""
    for number, (stock, row) in enumerate(zip(state.stock, state.rows, strict=True)):
        if row.uid and row.phase in "PR" and (stock.uid != row.uid or row.phase == "P"):
            yield Decision("srow", number, stock.uid, (row.uid,))
    for name, (unit, urow) in enumerate(zip(state.units, state.urows, strict=True)):
        if urow.uid and urow.phase in "RT" and unit.uid != urow.uid:
            yield Decision("urow", name, unit.uid, (urow.uid,))


def old_copies(state: State) -> Iterator[Decision]:
    """Return copies of the current state."""
    for number, (stock, row) in enumerate(zip(state.stock, state.rows, strict=True)):
        yield Decision("srow", number, stock.uid, (row.uid,))
    for name, (unit, urow) in enumerate(zip(state.units, state.urows, strict=True)):
        yield Decision("urow", name, unit.uid, (urow.uid,))


def carry_out(state: State, one: Decision, config: Config, *, fresh: bool = True) -> State | None:
    """Execute a decision; return `None` if its guard rejects it."""
    return _ACTS[one.what](state, one, config, fresh)


def _delete_stock(state: State, one: Decision, config: Config, _fresh: bool) -> State | None:
    uid = state.stock[one.name].uid
    if not uid or (uid != one.uid and config.has("uidstock")):
        return None
    after = without_stock(state, one.name)
    return _used(after, (one.name, uid, *one.seen)) if one.what == "del" else after


def _run(state: State, one: Decision, config: Config, fresh: bool) -> State | None:
    if state.units[one.name].uid != one.uid or (config.has("rvdep") and not fresh):
        return None  # Its owner is deleted: garbage.
    stock, uid, op, gen = one.seen
    after = with_deployment(state, one.name, 1, gen)
    return _used(after, (stock, uid, one.name, one.uid, op))


def _scale_down(state: State, one: Decision, config: Config, fresh: bool) -> State | None:
    unit = state.units[one.name]
    if unit.uid != one.uid or (config.has("rvdep") and not fresh):
        return None
    if unit.dep == 4:
        return with_deployment(state, one.name, 0)  # A Job at zero replaces it (rule `zero`).
    return with_deployment(state, one.name, 3 if unit.dep in {1, 3} else 2, one.seen[0])


def _delete_unit(state: State, one: Decision, config: Config, _fresh: bool) -> State | None:
    uid = state.units[one.name].uid
    hits = uid == one.uid or (uid and not config.has("uidunit"))
    return without_unit(state, one.name) if hits else None


def _copy_stock(state: State, one: Decision, config: Config, _fresh: bool) -> State | None:
    row = state.rows[one.name]
    if not row.uid or (config.has("newer") and one.seen != (row.uid,)):
        return None  # Seen without the row's UID.
    if one.uid != row.uid:
        phase = "D"
    elif row.phase == "P" or (row.phase == "D" and not config.has("rowfinal")):
        phase = "R"
    else:
        return None
    return None if phase == row.phase else with_row(state, one.name, row._replace(phase=phase))


def _copy_unit(state: State, one: Decision, config: Config, _fresh: bool) -> State | None:
    row = state.urows[one.name]
    if not row.uid or (config.has("newer") and one.seen != (row.uid,)):
        return None
    if one.uid == row.uid or row.phase == "D":
        return None
    return with_urow(state, one.name, row._replace(phase="D"))


_ACTS: dict[str, Callable[[State, Decision, Config, bool], State | None]] = {
    "del": _delete_stock,
    "dropstock": _delete_stock,
    "dep": _run,
    "undep": _scale_down,
    "dropunit": _delete_unit,
    "srow": _copy_stock,
    "urow": _copy_unit,
}


def _used(state: State, consumption: tuple[int, ...]) -> State:
    return state._replace(used=tuple(sorted({*state.used, consumption})))


def meddling(state: State) -> Iterator[tuple[tuple[object, ...], State]]:
    """Return the possible actions of a user with kubectl."""
    for number, stock in enumerate(state.stock):
        if stock.uid:
            after = without_stock(state, number)._replace(meddled=f"stock {number}")
            yield ("a person deletes stock", number), after
    for name, unit in enumerate(state.units):
        if unit.uid:
            after = without_unit(state, name)._replace(meddled="unit")
            yield ("a person deletes unit", name), after
            continue
        for words, made in _made_by_hand(state):
            uid = unit.last + 1
            other = made._replace(uid=uid, dep=0, last=uid, by_hand=True)
            yield (words, name), with_unit(state, name, other)._replace(meddled="unit")


def _made_by_hand(state: State) -> Iterator[tuple[str, Unit]]:
    yield "a person makes a unit", Unit()
    if state.stock[0].uid:
        yield "a person makes a unit that names stock 0", Unit(0, 0, 0, state.stock[0].uid)
    for name, unit in enumerate(state.units):
        if unit.uid and unit.op:
            yield f"a person copies unit {name} with its marks", unit
