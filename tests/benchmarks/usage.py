"""`make bench-usage`: queries of usage over 10 million hourly records.

One statement inserts the records in the order of their hours, as they are sealed: 1,000 tenants
with unequal numbers of units, for a year. The target is a 95th percentile of 300 ms for the usage
of one tenant in one month.
"""

import argparse
import random
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from tests.benchmarks.database import database
from tests.benchmarks.queue import load_words, milliseconds, say

RECORDS: Final = 10_000_000
TENANTS: Final = 1_000
HOURS: Final = 8_760
BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
QUERIES: Final = 100
TARGET_MS: Final = 300.0

# A tenant of rank n has a share of 1 / n of the units, so that the first ones are large.
_INSERT: Final = """
INSERT INTO usage_usagerecord (
    id, hour, tenant_id, kind, subject, subject_name, spec_name, product, resource_name, gpus,
    milliseconds, gpu_milliseconds, cpu_milliseconds, memory_mib_seconds, count, is_estimated,
    sealed_at)
SELECT lpad(to_hex(n), 32, '0')::uuid, %(begin)s + n / %(units)s * interval '1 hour',
       (%(tenants)s::bigint[])[floor(exp(ln(%(number)s + 1.0::float8) * (
           (hashint8(n %% %(units)s) & 1048575) / 1048576.0::float8)))::int],
       'gpu', 'unit-' || n %% %(units)s, 'unit-' || n %% %(units)s,
       'spec-' || n %% %(units)s %% 5, 'H100', 'nvidia.com/gpu', 2, 3600000, 7200000, 14400000,
       58982400, 0, n %% 100 = 0, now()
FROM generate_series(0::bigint, %(records)s - 1) n
"""

_INDEXES: Final = (
    "SELECT indexname, indexdef FROM pg_indexes"
    " WHERE tablename = 'usage_usagerecord' AND indexname NOT LIKE '%pkey'"
)
"""The indexes, which are created after the rows, since this is faster."""


def _month(number: int) -> tuple[datetime, datetime]:
    end = (
        datetime(2027, 1, 1, tzinfo=UTC)
        if number == 12
        else datetime(2026, number + 1, 1, tzinfo=UTC)
    )
    return datetime(2026, number, 1, tzinfo=UTC), end


def insert(records: int) -> None:
    """Insert the tenants and the records, and update the statistics of the table."""
    from django.db import connection, transaction  # noqa: PLC0415 - needs the settings

    from gpuplatform.tenancy.models import Tenant  # noqa: PLC0415 - after Django is set up

    names = [f"bench-{n:04d}" for n in range(TENANTS)]
    Tenant.objects.bulk_create([Tenant(name=name, namespace=name) for name in names])
    begun = time.perf_counter()
    tenants = Tenant.objects.filter(name__in=names).order_by("name")
    values: dict[str, Any] = {
        "begin": BEGIN,
        "units": records // HOURS + 1,
        "records": records,
        "tenants": list(tenants.values_list("pk", flat=True)),
        "number": TENANTS,
    }
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        cursor.execute("SET session_replication_role = replica")  # Foreign keys are not checked.
        cursor.execute("SET maintenance_work_mem = '512MB'")
        cursor.execute(_INDEXES)
        indexes = cursor.fetchall()
        with transaction.atomic():
            # PostgreSQL logs no rows of a table that the transaction has emptied.
            cursor.execute("TRUNCATE usage_usagerecord")
            for name, _ in indexes:
                cursor.execute(f'DROP INDEX "{name}"')
            cursor.execute(_INSERT, values)
            number = cursor.rowcount
            say(f"inserted after {time.perf_counter() - begun:.0f} s")
            for _, definition in indexes:
                cursor.execute(definition)
        cursor.execute("VACUUM ANALYZE usage_usagerecord")
        cursor.execute("RESET statement_timeout; RESET session_replication_role")
        cursor.execute("SELECT pg_size_pretty(pg_total_relation_size('usage_usagerecord'))")
        size = cursor.fetchone()[0]
    say(f"inserted {number:,} records in {time.perf_counter() - begun:.0f} s: {size}")


def measure(name: str, tenants: Sequence[str | None], groups: Sequence[str]) -> None:
    """Print the duration of the sums of a random month, for each tenant of `tenants`."""
    from gpuplatform.usage.selectors import GroupBy, Period, usage_sums  # noqa: PLC0415 - after Django is set up

    dice, took, rows = random.Random(1), [], 0
    for tenant in tenants:
        period = Period(*_month(dice.randint(1, 12)), tenant)
        begun = time.perf_counter()
        rows += len(usage_sums(period, [GroupBy(one) for one in groups])[:200])
        took.append(time.perf_counter() - begun)
    p95 = sorted(took)[int(len(took) * 0.95) - 1] * 1000
    verdict = "reached" if p95 <= TARGET_MS else "MISSED"
    say(f"{name}: {milliseconds(took)}: {verdict} ({rows} rows); {load_words()}")


def main() -> None:
    """Insert the records and measure the queries."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=RECORDS)
    given = parser.parse_args()
    with database():
        insert(given.records)
        dice = random.Random(2)
        small = [f"bench-{dice.randrange(TENANTS):04d}" for _ in range(QUERIES)]
        large = ["bench-0000"] * QUERIES
        measure("a tenant and a month, by spec and day", small, ["spec", "day"])
        measure("the largest tenant and a month, by spec and day", large, ["spec", "day"])
        measure("the largest tenant and a month, by unit", large, ["unit"])
        measure("all tenants and a month, by tenant", [None] * (QUERIES // 4), ["tenant"])


if __name__ == "__main__":
    main()
