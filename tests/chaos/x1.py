"""`make chaos-x1`: 2,000 operationIDs of two tenants, each sent by 8 concurrent callers.

One of ten requests has a different payload, and half of the callers disconnect before the response
and repeat their request. Each operationID must result in one operation and one object of its
tenant: one 202, 200 for each equal request, 409 for each other payload. Nothing is reconciled
during the test, which covers the write path.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.bench import describe_machine, on_control_plane, say
from tests.chaos.ledger import close_the_books, end
from tests.chaos.storm import Ledger, Response, Storm, read_state, two_tenants, violations

PREFIX = "x1"
MOST_SHOWN = 10


def main() -> int:
    """Run the experiment."""
    parser = argparse.ArgumentParser(prog="make chaos-x1", description=__doc__)
    parser.add_argument("--ids", type=int, default=2_000)
    parser.add_argument("--ledger", type=Path, default=Path(".data/x1.jsonl"))
    options = parser.parse_args()
    options.ledger.parent.mkdir(parents=True, exist_ok=True)
    options.ledger.unlink(missing_ok=True)
    ledger = Ledger(options.ledger)
    describe_machine()
    with on_control_plane(is_like_production=False) as bench:
        secrets = two_tenants(bench.platform)
        bench.platform.kill("reconcile")
        begun = time.monotonic()
        Storm(bench.platform.port, ledger, secrets, PREFIX).run(options.ids)
        lines = ledger.read()
        _report(lines, time.monotonic() - begun)
        faults = close_the_books(bench)
        say(f"all ended after {time.monotonic() - begun:.0f} s")
        found = violations(lines, read_state(bench.platform, PREFIX))
        for fault in found[:MOST_SHOWN]:
            say(f"  {fault}")
        return end(faults + ([f"{len(found)} violations"] if found else []))


def _report(lines: Sequence[Response], seconds: float) -> None:
    """Print the ledger."""
    say(
        f"{len(lines)} requests in {seconds:.0f} s, {len(lines) / seconds:.0f} per second; ledger:"
    )
    answers = Counter((line.tenant, line.status, line.code) for line in lines)
    for (tenant, status, code), number in sorted(answers.items()):
        words = f"{status} {code}" if status else "hung up"
        say(f"  {tenant:10} {words:24} {number:6}")


if __name__ == "__main__":
    sys.exit(main())
