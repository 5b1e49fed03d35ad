"""`make bench-audit`: accepted requests with and without audit entries, and the seals.

One caller sends requests in this process, in rounds that alternate between both. The targets are
at most 10 % more time for an accepted request, and at least 100 of them per second.
"""

import argparse
import statistics
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final
from unittest.mock import patch

from tests.benchmarks.database import database
from tests.benchmarks.queue import load_words, milliseconds, say

ROUNDS: Final = 40
REQUESTS: Final = 50
TARGET_RATIO: Final = 1.10
TARGET_A_SECOND: Final = 100.0
POOLS: Final = "/api/v1/operator/stockpools"


def _without() -> AbstractContextManager[Any]:
    return patch("gpuplatform.operations.services.entry_insert", lambda _: None)


def _round(client: Any, prefix: str, requests: int) -> list[float]:
    took = []
    for number in range(requests):
        name = f"{prefix}-{number}"
        body = {"operationID": name, "name": name, "specName": "g1.1", "replicas": 0}
        begun = time.perf_counter()
        response = client.post(POOLS, body, content_type="application/json")
        took.append(time.perf_counter() - begun)
        if response.status_code != 202:
            raise SystemExit(f"a request returned {response.status_code}: {response.content}")
    return took


def _verdict(*, is_met: bool) -> str:
    return "reached" if is_met else "MISSED"


def accept(rounds: int, requests: int) -> None:
    """Print the times of accepted requests with and without entries."""
    from django.test import Client  # noqa: PLC0415 - after Django is set up

    from inventory.models import GpuSpec  # noqa: PLC0415 - as above

    GpuSpec.objects.create(name="g1.1", gpu=1, memory="64Gi", cpu="8")
    client, took = (
        Client(headers={"host": "127.0.0.1"}),
        {True: list[float](), False: list[float]()},
    )
    _round(client, "warm", requests)
    for number in range(rounds):
        order = (True, False) if number % 2 else (False, True)
        for has_audit in order:
            with nullcontext() if has_audit else _without():
                took[has_audit] += _round(client, f"r{number}-{has_audit}".lower(), requests)
    for has_audit, words in ((False, "without"), (True, "with")):
        say(f"POST {words} audit: {milliseconds(took[has_audit])}; {load_words()}")
    ratio = statistics.median(took[True]) / statistics.median(took[False])
    say(f"  ratio of the medians {ratio:.3f}: {_verdict(is_met=ratio <= TARGET_RATIO)}")
    rate = len(took[True]) / sum(took[True])
    say(f"  with audit {rate:.0f}/s by one caller: {_verdict(is_met=rate >= TARGET_A_SECOND)}")


def seal(entries: int) -> None:
    """Print the rate of the seals and of their verification."""
    from gpuplatform.audit.models import AuditEntry, Outcome  # noqa: PLC0415 - after the set-up
    from gpuplatform.audit.services.entries import Entry, entry_insert  # noqa: PLC0415 - as above
    from gpuplatform.audit.services.seals import entries_seal  # noqa: PLC0415 - as above
    from gpuplatform.audit.services.verification import chain_breaks  # noqa: PLC0415 - as above

    begun = time.perf_counter()
    for number in range(entries):
        entry_insert(Entry(outcome=Outcome.READ, verb="read", name=f"unit-{number}"))
    say(f"{entries} inserts of single entries: {entries / (time.perf_counter() - begun):.0f}/s")
    begun = time.perf_counter()
    number = entries_seal()
    say(f"{number} entries sealed: {number / (time.perf_counter() - begun):.0f}/s")
    begun = time.perf_counter()
    breaks = len(list(chain_breaks()))
    seconds = time.perf_counter() - begun
    say(f"{AuditEntry.objects.count()} entries verified in {seconds:.1f} s: {breaks} breaks")


def main() -> None:
    """Measure both parts."""
    parser = argparse.ArgumentParser(prog="make bench-audit", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--entries", type=int, default=10_000)
    given = parser.parse_args()
    with database():
        accept(given.rounds, given.requests)
        seal(given.entries)


if __name__ == "__main__":
    main()
