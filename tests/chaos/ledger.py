"""The final checks of experiments: no open operation, rows and cluster agree, counts match."""

import threading
import time

from tests.benchmarks.bench import Bench, say

ENDED_SECONDS = 900.0
CONSISTENT_SECONDS = 120
OPEN = "SELECT count(*) FROM operations_operation WHERE phase IN ('Pending', 'Running')"


def wait_for_end(bench: Bench) -> list[str]:
    """Wait until no operation is open; return the violations."""
    until = time.monotonic() + ENDED_SECONDS
    while (left := bench.platform.sql(OPEN)[0][0]) and time.monotonic() < until:
        threading.Event().wait(1)
    return [f"{left} operations are still open"] if left else []


def close_the_books(bench: Bench) -> list[str]:
    """Print the final operations, stock and units; return the violations."""
    faults = wait_for_end(bench)
    done = bench.platform.manage("check_consistency", "--wait", str(CONSISTENT_SECONDS))
    say(f"check_consistency: {(done.stdout + done.stderr).strip()}")
    if done.returncode:
        faults.append(f"check_consistency ended with {done.returncode}")
    for kind, phase, error, number in bench.platform.sql(
        "SELECT kind, phase, error_code, count(*) FROM operations_operation"
        " GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
    ):
        say(f"  {kind:16} {phase:10} {error:24} {number:6}")
        if error in {"internal_error", "invariant_broken"}:
            faults.append(f"{number} {kind} ended with {error}")
    return faults + _stock(bench) + _units(bench)


def _stock(bench: Bench) -> list[str]:
    ((made, free, claimed, consumed, gone, unmade),) = bench.platform.sql(
        "SELECT count(*) FILTER (WHERE uid <> ''),"
        " count(*) FILTER (WHERE uid <> '' AND consumed_by = '' AND claimed_by_id IS NULL"
        "   AND deleted_at IS NULL),"
        " count(*) FILTER (WHERE claimed_by_id IS NOT NULL),"
        " count(*) FILTER (WHERE consumed_by <> ''),"
        " count(*) FILTER (WHERE uid <> '' AND consumed_by = '' AND deleted_at IS NOT NULL),"
        " count(*) FILTER (WHERE uid = '' AND deleted_at IS NULL)"
        " FROM units_gpuunit WHERE role = 'stock'"
    )
    say(
        f"  stock created {made} = free {free} + claimed {claimed} + consumed {consumed}"
        f" + deleted {gone}; not created {unmade}"
    )
    faults = []
    if made != free + claimed + consumed + gone:
        faults.append("the states of stock do not add up")
    if claimed:
        faults.append(f"{claimed} stock units are claimed without an open operation")
    return faults


def _units(bench: Bench) -> list[str]:
    rows = bench.platform.sql(
        "SELECT phase, count(*), count(DISTINCT source_uid) FROM units_gpuunit"
        " WHERE role = 'active' AND deleted_at IS NULL GROUP BY 1 ORDER BY 1"
    )
    for phase, number, sources in rows:
        say(f"  units {phase:12} {number:6} on {sources} sources")
    ((doubled,),) = bench.platform.sql(
        "SELECT count(*) FROM (SELECT source_uid FROM units_gpuunit WHERE role = 'active'"
        " AND source_uid <> '' AND deleted_at IS NULL GROUP BY 1 HAVING count(*) > 1) twice"
    )
    return [f"{doubled} stock units are the source of two units"] if doubled else []


def end(faults: list[str]) -> int:
    """Print the verdict; return the exit code."""
    say("nothing was lost, duplicated or left" if not faults else "FAULTS: " + "; ".join(faults))
    return 1 if faults else 0
