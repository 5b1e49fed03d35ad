"""`make bench-units`: the hand-over of GPU units, and their idle cost.

Runs on a real control plane with simulated nodes that start pods immediately and write no Events.
Without arguments all parts run; `make bench-units PARTS="serial burst"` runs some. Figures of
different or loaded machines are not comparable; ratios within one run are.
"""

import argparse
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Final

from gpuplatform.kube.kinds import GPU_UNIT
from tests.benchmarks.bench import (
    NAMESPACE,
    PORTS,
    SPEC,
    SPECS,
    UNITS,
    Api,
    Audit,
    Bench,
    at_once,
    describe_machine,
    load_words,
    on_control_plane,
    on_simulator,
    say,
)
from tests.benchmarks.crowd import crowd
from tests.benchmarks.many_rows import Rows
from tests.benchmarks.pools import percentiles

CALLERS: Final = 16
CREATES: Final = 400
MANY: Final = 5_000
ROUNDS: Final = 5
SERIAL: Final = 50
BURST: Final = 50
PER_SECOND: Final = 5
STEADY_SECONDS: Final = 120
WINDOW_SECONDS: Final = 10
STEADY_STOCK: Final = 650
SEED: Final = 100
SETTLED: Final = 1_000
SETTLED_ON_SIMULATOR: Final = 5_000
REST_SECONDS: Final = 60
LISTS: Final = 200
WRITERS: Final = 8


def accept(bench: Bench) -> None:
    """Accepted creates per second with paused workers, with 5,000 units and without units."""
    _accept(bench)


def limits(bench: Bench) -> None:
    """The same on the simulated cluster, for a tenant with limits."""
    hard = 2 * (MANY + CREATES)
    names = ("gpus", f"gpus.{SPEC}", "units", "openOperations")
    body = {"operationID": "limits", "limits": dict.fromkeys(names, hard)}
    answer = bench.api()("PUT", "/api/v1/operator/tenants/default/limits", body)
    if answer.status != HTTPStatus.ACCEPTED:
        raise SystemExit(f"the limits were rejected with {answer.status}: {answer.body}")
    _accept(bench)


def _accept(bench: Bench) -> None:
    bench.seed(3)
    api = bench.api()
    name = bench.name("pattern")
    bench.create(api, name)
    bench.seen.wait([name])
    bench.wait_for_row_count(2)
    threading.Event().wait(3)
    for part in ("operations", "reconcile", "periodic", "beat", "controller"):
        bench.platform.kill(part)
    rows = Rows(bench.platform, name)
    _create_many(bench, rows, units=0)  # Afterwards every process has its connections.
    rates: dict[int, list[float]] = {0: [], MANY: []}
    for _ in range(ROUNDS):
        for units, found in rates.items():
            found.append(_create_many(bench, rows, units=units))
    rows.reset()
    bench.platform.forget_messages()
    for part in ("operations", "reconcile", "periodic", "beat", "controller"):
        bench.platform.start(part)
    none, many = (statistics.median(found) for found in rates.values())
    say(f"accepted creates per second, no units: {none:.0f}  {_rounded(rates[0])}")
    say(f"accepted creates per second, {MANY} units: {many:.0f}  {_rounded(rates[MANY])}")
    pairs = [b / a for a, b in zip(rates[0], rates[MANY], strict=True)]
    say(f"median ratio: {statistics.median(pairs):.2f}  {[round(pair, 2) for pair in pairs]}")


def _create_many(bench: Bench, rows: Rows, *, units: int) -> float:
    rows.reset()
    rows.add_units(units)
    rows.add_stock(CREATES)
    rows.analyze()
    bench.platform.forget_messages()
    apis = [bench.api() for _ in range(CALLERS)]
    took: list[float] = []

    def create(number: int) -> None:
        begun, accepted = bench.create(apis[number % CALLERS], bench.name("accept"))
        took.append(accepted - begun)

    begun = time.perf_counter()
    shares = [range(first, CREATES, CALLERS) for first in range(CALLERS)]
    at_once([partial(_each_of, create, share) for share in shares], CALLERS)
    rate = CREATES / (time.perf_counter() - begun)
    if len(took) != CREATES:
        raise SystemExit(f"only {len(took)} of {CREATES} creates were accepted")
    say(f"  {units} units: {rate:.0f}/s at {CALLERS} callers; POST {percentiles(took)}")
    return rate


def _each_of(create: Callable[[int], None], numbers: Sequence[int]) -> None:
    for number in numbers:
        create(number)


def serial(bench: Bench) -> None:
    """Accepted → ready, one after another; API writes per hand-over."""
    bench.seed(SERIAL)
    api, took = bench.api(), []
    audit = Audit(bench.kubeconfig)
    cpu = _cpu(bench)
    for _ in range(SERIAL):
        name = bench.name("serial")
        _, accepted = bench.create(api, name)
        bench.seen.wait([name])
        took.append(_ready(bench, name) - accepted)
    threading.Event().wait(3)
    say(f"accepted → ready, one after another ({SERIAL}): {percentiles(took)}")
    _say_cpu(bench, cpu, SERIAL)
    writes, calls = audit.writes(), audit.calls(only_writes=False)
    say(f"API writes per hand-over: {writes.total() / SERIAL:.1f}  {_each(writes, SERIAL)}")
    say(f"API calls per hand-over: {calls.total() / SERIAL:.1f}  {_each(calls, SERIAL)}")


def burst(bench: Bench) -> None:
    """Accepted → ready, all at the same time."""
    bench.seed(BURST)
    names = [bench.name("burst") for _ in range(BURST)]
    cpu = _cpu(bench)
    accepted = at_once([partial(_accepted, bench, name) for name in names], BURST)
    bench.seen.wait(names)
    took = [_ready(bench, name) - at for name, at in zip(names, accepted, strict=True)]
    say(f"accepted → ready, {BURST} at the same time: {percentiles(took)}")
    _say_cpu(bench, cpu, BURST)


def _cpu(bench: Bench) -> list[dict[str, float]]:
    return [bench.own_cpu_seconds(), bench.ground_cpu_seconds()]


def _say_cpu(bench: Bench, before: list[dict[str, float]], number: int) -> None:
    """Print the processor time per hand-over: of the platform and of its servers."""
    for what, now, then in zip(("platform", "all else"), _cpu(bench), before, strict=True):
        used = {part: 1000 * (cpu - then[part]) / number for part, cpu in now.items()}
        each = ", ".join(f"{part} {milliseconds:.0f}" for part, milliseconds in used.items())
        say(f"processor time per hand-over, {what}: {sum(used.values()):.0f} ms ({each})")


def steady(bench: Bench) -> None:
    """Accepted → ready at a steady rate, while the warm target refills; per window of 10 s."""
    bench.seed(STEADY_STOCK)
    change = {"operationID": bench.name("target"), "warmTarget": STEADY_STOCK}
    answer = bench.api()("PATCH", f"{SPECS}/{SPEC}", change)
    if answer.status not in {200, 202}:
        raise SystemExit(f"the warm target returned {answer.status}: {answer.body}")
    names = [bench.name("steady") for _ in range(PER_SECOND * STEADY_SECONDS)]
    begun = time.perf_counter()
    accepted = at_once(
        [partial(_at, bench, begun, number, name) for number, name in enumerate(names)], 40
    )
    bench.seen.wait(names)
    took = [_ready(bench, name) - at for name, at in zip(names, accepted, strict=True)]
    say(f"accepted → ready at {PER_SECOND}/s, {STEADY_SECONDS} s: {percentiles(took)}")
    windows: dict[int, list[float]] = defaultdict(list)
    for at, seconds in zip(accepted, took, strict=True):
        windows[int((at - begun) / WINDOW_SECONDS)].append(seconds)
    for window, found in sorted(windows.items()):
        if len(found) > 1:
            say(f"  {window * WINDOW_SECONDS:>4} s: {percentiles(found)}")
    (refilled,) = bench.platform.sql(
        "SELECT count(*) FROM units_gpuunit u JOIN operations_operation o ON o.id = u.operation_id"
        " WHERE o.operation_id LIKE 'top-up-%%' AND u.uid <> ''"
    )
    say(f"  stock created for the warm target: {refilled[0]}")


def _at(bench: Bench, begun: float, number: int, name: str) -> float:
    pause = begun + number / PER_SECOND - time.perf_counter()
    threading.Event().wait(max(pause, 0))
    return _accepted(bench, name)


def _accepted(bench: Bench, name: str) -> float:
    return bench.create(bench.api(), name)[1]


def seed(bench: Bench) -> None:
    """Stock requested → all of it ready."""
    for _ in range(3):
        say(f"{SEED} stock seeded and ready: {bench.seed(SEED):.1f} s")
        bench.empty()


def settled(bench: Bench) -> None:
    """The idle cost of ready units, and the time of their list."""
    _settled(bench, SETTLED)
    _list(bench)


def settled_on_simulator(bench: Bench) -> None:
    """The same on the simulated cluster."""
    _settled(bench, SETTLED_ON_SIMULATOR)
    _list(bench)


def _settled(bench: Bench, number: int) -> None:
    threading.Event().wait(5)
    before = _rest(bench, REST_SECONDS / 2)
    say(f"no units: {before:.1%} of a core")
    make = [partial(_by_hand, bench, bench.name("settled")) for _ in range(number)]
    begun = time.perf_counter()
    names = at_once(make, WRITERS)
    bench.seen.wait(names, seconds=3600)
    due = "SELECT count(*) FROM units_gpuunit WHERE due_at IS NOT NULL OR phase <> 'Ready'"
    live = f"{due} AND deleted_at IS NULL"
    bench.platform.wait(lambda: bench.platform.sql(live)[0][0] == 0, "all units to be ready", 600)
    say(f"{number} units created with kubectl and ready in {time.perf_counter() - begun:.0f} s")
    threading.Event().wait(15)
    marks = _marks(bench)
    audit = Audit(bench.kubeconfig) if (bench.kubeconfig.parent / "audit.log").exists() else None
    share = _rest(bench, REST_SECONDS)
    say(f"{number} ready units, {REST_SECONDS} s: {share:.1%} of a core; {load_words()}")
    changed = _marks(bench) - marks
    say(f"  units whose resource version changed: {len({name for name, _ in changed})}")
    if audit is not None:
        say(f"  API writes: {audit.writes().total()}; calls: {audit.calls(only_writes=False)}")


def _marks(bench: Bench) -> set[tuple[str, str]]:
    cluster = bench.platform.cluster()
    try:
        units = cluster.list(GPU_UNIT).items
    finally:
        cluster.close()
    return {(unit["metadata"]["name"], unit["metadata"]["resourceVersion"]) for unit in units}


def _rest(bench: Bench, seconds: float) -> float:
    before = bench.own_cpu_seconds()
    threading.Event().wait(seconds)
    after = bench.own_cpu_seconds()
    used = {name: (after[name] - before[name]) / seconds for name in after}
    say("  " + ", ".join(f"{name} {share:.1%}" for name, share in used.items()))
    return sum(used.values())


def _by_hand(bench: Bench, name: str) -> str:
    cluster = bench.platform.cluster()
    unit = {
        "apiVersion": GPU_UNIT.api_version,
        "kind": GPU_UNIT.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"specName": SPEC, "gpu": 1, "image": "busybox:1.36", "template": PORTS},
    }
    try:
        cluster.create(GPU_UNIT, unit)
    finally:
        cluster.close()
    return name


def _list(bench: Bench) -> None:
    api: Api = bench.api()
    took = []
    for _ in range(LISTS):
        begun = time.perf_counter()
        answer = api("GET", f"{UNITS}?limit=100")
        took.append(time.perf_counter() - begun)
        if answer.status != 200 or len(answer.body["data"]) != 100:
            raise SystemExit(f"the list returned {answer.status}")
    say(f"list of 100: {percentiles(took)}")


def _ready(bench: Bench, name: str) -> float:
    return bench.seen.ready_at[NAMESPACE, name]


def _rounded(found: Sequence[float]) -> list[int]:
    return [round(one) for one in found]


def _each(counted: dict[str, int], number: int) -> dict[str, float]:
    return {what: round(count / number, 2) for what, count in sorted(counted.items())}


PARTS: Final[dict[str, Callable[[Bench], None]]] = {
    "accept": accept,
    "serial": serial,
    "burst": burst,
    "steady": steady,
    "seed": seed,
    "crowd": crowd,
    "settled": settled,
}
ON_SIMULATOR: Final[dict[str, Callable[[Bench], None]]] = {
    "simulator": settled_on_simulator,
    "limits": limits,
    "unlimited": accept,
}


def main() -> None:
    """Run the requested parts."""
    parser = argparse.ArgumentParser(prog="make bench-units", description=__doc__)
    every = [*PARTS, *ON_SIMULATOR]
    parser.add_argument("parts", nargs="*", metavar="part", help=f"some of: {', '.join(every)}")
    asked = parser.parse_args().parts or every
    if unknown := set(asked) - set(every):
        parser.error(f"unknown part: {', '.join(sorted(unknown))}")
    describe_machine()
    for place, parts in ((on_control_plane, PARTS), (on_simulator, ON_SIMULATOR)):
        chosen = {name: run for name, run in parts.items() if name in asked}
        if not chosen:
            continue
        with place() as bench:
            for number, (name, run) in enumerate(chosen.items()):
                if number:
                    bench.empty()
                say(f"-- {name}: {run.__doc__}  [{load_words()}]")
                run(bench)


if __name__ == "__main__":
    main()
