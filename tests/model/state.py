"""State of the hand-over's model: rules, rows, resources, actors, and what writes them.

Operations are numbered from 1 (0: none), stock and unit names from 0; UIDs count up per name
(those of unit 1 from 101). The cluster contains no claims: the row of a stock unit decides.
"""

from types import MappingProxyType
from typing import NamedTuple

RULES = MappingProxyType(
    {
        "order": "operations on one unit run in the order in which they were accepted",
        "token": "a worker's transactions are guarded by its lease token",
        "getfirst": "the unit is read before anything else is done",
        "recorduid": "delete, stop and start take the UID that the create recorded",
        "arbiter": "a unit runs only if its source's row says consumed by its UID",
        "leftover": "what an ended operation made and did not record is deleted; no name conflict",
        "final": "a consumed row is never free again",
        "newer": "absence counts only if seen after the row's UID was learned",
        "rowfinal": "a deleted row never comes back",
        "waitabs": "the Deployment waits until the source is deleted and its pods have ended",
        "terminal": "a pod has ended when its phase is terminal, not when it is terminating",
        "noowner": "no Deployment or ReplicaSet of the source exists when its pods are read",
        "uidunit": "a unit is deleted guarded by UID",
        "uidstock": "a stock unit is deleted guarded by UID",
        "applied": "an operation older than the last one applied to the unit is not applied",
        "rvpatch": "a change of a unit is guarded by UID and resource version",
        "rvdep": "the Deployment is made by POST once, then changed with its resource version",
        "stamp": "a stop rewrites a Deployment that is at 0 already; a start waits for that",
        "named": "a success consumes the row that the unit names, and frees the other claims",
        "gonerow": "the row of stock seen gone becomes gone, not free, when other stock is taken",
        "startwaits": "a start reads and patches only once the old pods are gone",
        "zero": "a suspended unit without a Deployment gets one of 0 replicas",
        "voidstart": "a unit whose last applied operation is a start that failed is suspended",
        "ended": "a program that has ended does not run again before a start",
    }
)
FAULTS = (
    "crash",
    "late",
    "ambig",
    "refuse",
    "planner",
    "sweep",
    "mirror",
    "outsider",
    "evict",
    "end",
)


class Request(NamedTuple):
    """A request for a unit; the name of a seed is its stock."""

    kind: str
    name: int


class Config(NamedTuple):
    """A scenario."""

    requests: tuple[Request, ...]
    stock: int
    faults: tuple[int, ...]
    rules: frozenset[str]
    workers: int = 2

    def has(self, rule: str) -> bool:
        """Return whether a rule is enabled."""
        return rule in self.rules


class Op(NamedTuple):
    """Row of an operation. Phase `-`: not sent, `P`: open, `S`: succeeded, `F`: failed."""

    phase: str = "-"
    uid: int = 0
    target: int = 0
    """Delete, stop, start: the create of the unit."""
    why: str = ""


class Row(NamedTuple):
    """Row of stock. Phase `-`: none, `P`: not ready yet, `R`: ready, `D`: deleted."""

    phase: str = "-"
    uid: int = 0
    op: int = 0
    """The operation that claims it."""
    eater: tuple[int, ...] = ()
    """Consumed by (unit name, UID, operation)."""

    @property
    def is_free(self) -> bool:
        """Whether an operation can claim it."""
        return self.phase == "R" and not self.op and not self.eater


class Stock(NamedTuple):
    """Resource of stock; uid 0: absent."""

    uid: int = 0
    pod: int = 0
    """UID whose pods hold the GPU. A pod in a terminal phase holds none, if its object exists or
    not."""
    last: int = 0
    owner: int = 0
    """UID whose Deployment and ReplicaSet exist, which replace a pod that has ended."""


class Unit(NamedTuple):
    """Resource of a unit; uid 0: absent, op 0: created with kubectl."""

    uid: int = 0
    op: int = 0
    src: int = -1
    srcuid: int = 0
    dep: int = 0
    """Its Deployment or its Job. 0: absent, or a Job that ended in an earlier run; 1: it runs;
    2: zero and no pods; 3: zero and ending pods; 4: a Job that ended in the current run, and holds
    no GPU."""
    off: bool = False
    gen: int = 0
    """Increased when `off` changes."""
    stamp: int = 0
    """The `gen` of its Deployment."""
    applied: int = 0
    last: int = 0
    by_hand: bool = False
    """Created with kubectl, possibly with the annotations of an operation."""


class UnitRow(NamedTuple):
    """Row of a unit. Phase `P`: accepted, `R`: created, `T`: to be deleted, `D`: deleted."""

    phase: str = "-"
    uid: int = 0
    op: int = 0


class Worker(NamedTuple):
    """A busy worker; idle ones are not listed."""

    op: int
    pc: str
    s: int = -1
    suid: int = 0
    uid: int = 0
    fresh: bool = False
    """The unit still has the resource version that was read."""
    valid: bool = True
    """The row has its lease token."""


class Decision(NamedTuple):
    """A decision of planner, sweep or mirror, from its observation."""

    what: str
    name: int
    uid: int
    seen: tuple[int, ...] = ()


class Held(NamedTuple):
    """A decision that is executed late."""

    who: str
    decision: Decision
    fresh: bool = True


class State(NamedTuple):
    """The whole state of the model."""

    ops: tuple[Op, ...]
    rows: tuple[Row, ...]
    stock: tuple[Stock, ...]
    units: tuple[Unit, ...]
    urows: tuple[UnitRow, ...]
    workers: tuple[Worker, ...] = ()
    held: tuple[Held, ...] = ()
    budget: tuple[int, ...] = ()
    used: tuple[tuple[int, ...], ...] = ()
    """History: (stock, its uid, unit, its uid, operation) of every consumption."""
    ends: tuple[tuple[int, ...], ...] = ()
    """History: (unit, its uid, stock, its uid) of every run whose program has ended."""
    meddled: str = ""


def initial(config: Config) -> State:
    """Return the state before the first request."""
    seeds = {request.name for request in config.requests if request.kind == "seed"}
    names = 1 + max(request.name for request in config.requests if request.kind != "seed")
    ready = [number not in seeds for number in range(config.stock + len(seeds))]
    return State(
        ops=(Op("x"),) + (Op(),) * len(config.requests),
        rows=tuple(Row("R", 1) if is_ready else Row() for is_ready in ready),
        stock=tuple(Stock(1, 1, 1, 1) if is_ready else Stock() for is_ready in ready),
        units=tuple(Unit(last=100 * name) for name in range(names)),
        urows=(UnitRow(),) * names,
        budget=config.faults,
    )


def with_op(state: State, number: int, op: Op) -> State:
    """Replace the row of an operation."""
    return state._replace(ops=(*state.ops[:number], op, *state.ops[number + 1 :]))


def with_row(state: State, number: int, row: Row) -> State:
    """Replace a row of stock."""
    return state._replace(rows=(*state.rows[:number], row, *state.rows[number + 1 :]))


def with_urow(state: State, name: int, row: UnitRow) -> State:
    """Replace a row of a unit."""
    return state._replace(urows=(*state.urows[:name], row, *state.urows[name + 1 :]))


def with_stock(state: State, number: int, stock: Stock) -> State:
    """Replace a stock resource."""
    return state._replace(stock=(*state.stock[:number], stock, *state.stock[number + 1 :]))


def with_worker(state: State, index: int, worker: Worker | None) -> State:
    """Replace a worker, or remove it."""
    others = state.workers[:index] + state.workers[index + 1 :]
    return state._replace(workers=tuple(sorted(others + ((worker,) if worker else ()))))


def with_unit(state: State, name: int, unit: Unit) -> State:
    """Change a unit resource; earlier readers have an old resource version."""
    units = (*state.units[:name], unit, *state.units[name + 1 :])
    workers = tuple(sorted(worker._replace(fresh=False) for worker in state.workers))
    return state._replace(units=units, workers=workers)


def with_deployment(state: State, name: int, dep: int, stamp: int | None = None) -> State:
    """Change a unit's Deployment; held decisions about it hold an old resource version."""
    unit = state.units[name]
    unit = unit._replace(dep=dep, stamp=unit.stamp if stamp is None else stamp)
    units = (*state.units[:name], unit, *state.units[name + 1 :])
    held = tuple(
        sorted(
            one._replace(fresh=False)
            if one.decision.name == name and one.decision.what in {"dep", "undep"}
            else one
            for one in state.held
        )
    )
    return state._replace(units=units, held=held)


def with_end(state: State, name: int) -> State:
    """End the program of a unit that runs."""
    unit = state.units[name]
    ends = {*state.ends, (name, unit.uid, unit.src, unit.srcuid)}
    return with_deployment(state, name, 4)._replace(ends=tuple(sorted(ends)))


def without_stock(state: State, number: int) -> State:
    """Delete a stock resource; its pods end later."""
    return with_stock(state, number, state.stock[number]._replace(uid=0))


def without_unit(state: State, name: int) -> State:
    """Delete a unit resource."""
    return with_unit(state, name, Unit(last=state.units[name].last))


def claim(state: State, op: int, but: int = -1) -> tuple[int, State] | None:
    """Claim the first free row for an operation."""
    for number, row in enumerate(state.rows):
        if row.is_free and number != but:
            return number, with_row(state, number, row._replace(op=op))
    return None


def claimed(state: State, op: int) -> int:
    """Return the row that an operation claims, or -1."""
    return next((number for number, row in enumerate(state.rows) if row.op == op), -1)


def freed(rows: tuple[Row, ...], op: int) -> tuple[Row, ...]:
    """Return the rows without the claims of an operation."""
    return tuple(row._replace(op=0) if row.op == op else row for row in rows)


def is_leftover(state: State, unit: Unit) -> bool:
    """Return whether a late write of an ended operation created the unit."""
    op = state.ops[unit.op]
    is_unknown = op.phase == "F" or (op.phase == "S" and op.uid != unit.uid)
    return unit.uid > 0 and unit.op > 0 and not unit.by_hand and is_unknown


def is_stopped(state: State, unit: Unit, config: Config) -> bool:
    """Return whether a unit counts as suspended."""
    is_void = unit.applied != unit.op and state.ops[unit.applied].phase == "F"
    return unit.off or (config.has("voidstart") and is_void)
