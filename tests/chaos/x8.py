"""`make chaos-x8`: 64 callers, 600 requests, 500 stock units, 3 worker processes, stale reads.

Exactly 500 requests must be accepted and become 500 units with 500 sources; the others must fail
without stock. Watch events are delayed, so rows are stale when stock is claimed, and the response
of every 25th write is lost. (A read without a resource version is never stale: Kubernetes reads
it from a quorum.)
"""

import argparse
import contextlib
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from typing_extensions import override

from tests.benchmarks.bench import (
    PORTS,
    SPEC,
    UNITS,
    Api,
    Bench,
    at_once,
    describe_machine,
    on_control_plane,
    say,
)
from tests.chaos.ledger import close_the_books, end
from tests.fakes.fault_proxy import FaultProxy, Upstream
from tests.fakes.faults import Cut, Rule, Stream

CALLERS = 64
EVERY = 25
HELD_BACK, LATE_SECONDS = 0.02, 3.0
"""The share of delayed events, with all later ones, and the maximum delay."""
WORKERS = 3
SEED_STEP = 100
READY_SECONDS = 600


@dataclass(slots=True)
class Sometimes(Rule):
    """Interval of matching requests."""

    @override
    def takes(self, verb: str, resource: str) -> bool:
        return Rule.takes(self, verb, resource) and self.hits % EVERY == 0


def _late(lines: Iterable[bytes], chance: random.Random) -> Iterator[bytes]:
    for line in lines:
        if chance.random() < HELD_BACK:
            threading.Event().wait(LATE_SECONDS * chance.random())
        yield line


def _stale(stack: contextlib.ExitStack, own: Path) -> Path:
    """Insert a proxy that delays events and drops responses."""
    proxy = stack.enter_context(FaultProxy(Upstream.of(own)).running())
    late = Stream(lambda lines: _late(lines, random.Random(own.name)))
    proxy.add(
        Rule(late, verbs=("watch",), times=None),
        Sometimes(Cut(is_after=True), verbs=("create", "patch", "delete"), times=None),
    )
    return proxy.write_kubeconfig(own.with_name("kubeconfig-stale"))


def main() -> int:
    """Run the experiment."""
    parser = argparse.ArgumentParser(prog="make chaos-x8", description=__doc__)
    parser.add_argument("--stock", type=int, default=500)
    parser.add_argument("--requests", type=int, default=600)
    options = parser.parse_args()
    describe_machine()
    with on_control_plane(is_like_production=False, through=_stale) as bench:
        for begin in range(0, options.stock, SEED_STEP):
            bench.seed(min(SEED_STEP, options.stock - begin))
        bench.wait_for_row_count(options.stock)
        for number in range(1, WORKERS):
            bench.platform.start("operations", role=f"operations-{number}")
        faults = _race(bench, options.stock, options.requests)
        return end(faults + close_the_books(bench))


def _race(bench: Bench, stock: int, requests: int) -> list[str]:
    apis = [bench.api() for _ in range(CALLERS)]
    names = [f"x8-{number}" for number in range(requests)]
    begun = time.monotonic()
    callers = [partial(_ask_all, api, names[n::CALLERS]) for n, api in enumerate(apis)]
    answers = dict(pair for found in at_once(callers, CALLERS) for pair in found)
    counts = Counter(answers.values())
    say(f"{requests} requests over {stock} stock in {time.monotonic() - begun:.1f} s: {counts}")
    wanted = {"accepted": stock, "insufficient_capacity": requests - stock}
    accepted = [name for name, answer in answers.items() if answer == "accepted"]
    bench.seen.wait(accepted, seconds=READY_SECONDS)
    say(f"{len(accepted)} units ready after {time.monotonic() - begun:.1f} s")
    return [] if dict(counts) == wanted else [f"the responses are {counts}, not {wanted}"]


def _ask_all(api: Api, names: list[str]) -> list[tuple[str, str]]:
    return [(name, _ask(api, name)) for name in names]


def _ask(api: Api, name: str) -> str:
    body = {"operationID": name, "name": name, "specName": SPEC, "image": "busybox:1.36"}
    answer = api("POST", UNITS, {**body, "template": PORTS})
    if answer.status == 202:
        return "accepted"
    return str((answer.body.get("error") or {}).get("code"))


if __name__ == "__main__":
    sys.exit(main())
