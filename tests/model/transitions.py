"""All enabled transitions, with faults within the budget of each."""

from collections.abc import Iterable, Iterator

from tests.model import planners, workers
from tests.model.state import (
    FAULTS,
    Config,
    Decision,
    Held,
    State,
    with_deployment,
    with_end,
    with_stock,
    with_worker,
)
from tests.model.workers import Move


def successors(state: State, config: Config) -> Iterator[Move]:
    """Return all enabled moves; `fault` names the fault that a move uses."""
    yield from workers.accept(state, config)
    yield from workers.take(state, config)
    yield from workers.grant(state, config)
    for index in range(len(state.workers)):
        yield from _worker(state, index, config)
    yield from _collected(state, config)
    yield from _decisions(state, config)
    yield from _late_acts(state, config)
    yield from _evictions(state)
    yield from _ends(state)
    if _left(state, "outsider"):
        for label, after in planners.meddling(state):
            yield Move(label, _spend(state, after, "outsider"), fault="outsider")


def _left(state: State, fault: str) -> int:
    return state.budget[FAULTS.index(fault)]


def _spend(before: State, after: State, fault: str) -> State:
    place = FAULTS.index(fault)
    budget = before.budget
    return after._replace(budget=(*budget[:place], budget[place] - 1, *budget[place + 1 :]))


def _worker(state: State, index: int, config: Config) -> Iterator[Move]:
    worker = state.workers[index]
    for move in workers.step(state, index, config):
        if move.fault:
            if _left(state, move.fault):
                yield move._replace(state=_spend(state, move.state, move.fault))
            continue
        yield move
        if move.writes and _left(state, "ambig"):
            yield _answer_lost(state, move, worker.op, is_valid=worker.valid)
    label = (worker.op, worker.pc)
    if _left(state, "crash"):
        gone = with_worker(state, index, None)
        yield Move(("crash", *label), _spend(state, gone, "crash"), fault="crash")
    if _left(state, "late") and worker.valid:
        stalled = with_worker(state, index, worker._replace(valid=False))
        yield Move(("late", *label), _spend(state, stalled, "late"), fault="late")


def _answer_lost(state: State, move: Move, op: int, *, is_valid: bool) -> Move:
    """The write succeeds and the response is lost: the run is repeated later."""
    found = (
        n for n, one in enumerate(move.state.workers) if (one.op, one.valid) == (op, is_valid)
    )
    index = next(found, None)
    after = move.state if index is None else with_worker(move.state, index, None)
    return Move(("answer lost", *move.label), _spend(state, after, "ambig"), fault="ambig")


def _collected(state: State, config: Config) -> Iterator[Move]:
    """Objects are collected, and pods end, some time after what they belonged to.

    Without evictions, ReplicaSets have no effect: they then disappear with their pods, so that
    there are fewer states.
    """
    can_evict = config.faults[FAULTS.index("evict")] > 0
    for number, stock in enumerate(state.stock):
        is_orphaned = stock.owner != stock.uid
        if is_orphaned and stock.owner and can_evict:
            after = with_stock(state, number, stock._replace(owner=stock.uid))
            yield Move(("the ReplicaSet of stock is collected", number), after)
        if stock.owner and not stock.pod:
            after = with_stock(state, number, stock._replace(pod=stock.owner))
            yield Move(("pods of stock are replaced", number), after)
        is_alone = stock.pod != stock.owner or (is_orphaned and not can_evict)
        if stock.pod and stock.pod != stock.uid and is_alone:
            ended = stock._replace(pod=stock.uid, owner=stock.uid)
            yield Move(("pods of stock end", number), with_stock(state, number, ended))
    for name, unit in enumerate(state.units):
        if unit.dep == 3:
            yield Move(("pods of unit end", name), with_deployment(state, name, 2))


def _evictions(state: State) -> Iterator[Move]:
    """A node evicts the pod of stock: its phase is terminal, and its ReplicaSet replaces it."""
    for number, stock in enumerate(state.stock):
        if stock.pod and stock.pod == stock.owner and _left(state, "evict"):
            after = with_stock(state, number, stock._replace(pod=0))
            yield Move(("evict", number), _spend(state, after, "evict"), fault="evict")


def _ends(state: State) -> Iterator[Move]:
    """The program of a unit that has a Job ends; the unit holds no GPU."""
    for name, unit in enumerate(state.units):
        if unit.dep == 1 and _left(state, "end"):
            after = with_end(state, name)
            yield Move(("end", name), _spend(state, after, "end"), fault="end")


def _decisions(state: State, config: Config) -> Iterator[Move]:
    deciders: tuple[tuple[str, Iterable[Decision]], ...] = (
        ("planner", planners.plans(state, config)),
        ("sweep", planners.sweeps(state, config)),
        ("mirror", planners.copies(state)),
    )
    for who, decisions in deciders:
        for one in decisions:
            after = planners.carry_out(state, one, config)
            if after is not None:
                yield Move((who, *one), after)
            if _left(state, who):
                yield _hold(state, who, one)
    if _left(state, "mirror"):
        for one in planners.old_copies(state):
            yield _hold(state, "mirror", one)


def _hold(state: State, who: str, one: Decision) -> Move:
    held = state._replace(held=tuple(sorted((*state.held, Held(who, one)))))
    return Move((who, "decides", *one), _spend(state, held, who), fault=who)


def _late_acts(state: State, config: Config) -> Iterator[Move]:
    for number, held in enumerate(state.held):
        rest = state._replace(held=state.held[:number] + state.held[number + 1 :])
        after = planners.carry_out(rest, held.decision, config, fresh=held.fresh)
        yield Move((held.who, "acts late", *held.decision), after or rest)
