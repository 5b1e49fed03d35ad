"""Rows of many units without resources: copies of real rows, for database benchmarks."""

from collections.abc import Mapping

from tests.acceptance.platform import RunningPlatform

UNITS, OPERATIONS = "units_gpuunit", "operations_operation"


class Rows:
    """Copies of the rows of one real unit, its operation, its consumed stock, and free stock."""

    def __init__(self, platform: RunningPlatform, unit: str) -> None:
        self._platform = platform
        ((self._unit, self._operation),) = platform.sql(
            f"SELECT id, operation_id FROM {UNITS} WHERE role = 'active' AND name = %s",
            unit,
        )
        ((self._consumed,),) = platform.sql(f"SELECT max(id) FROM {UNITS} WHERE consumed_by <> ''")
        ((self._free,),) = platform.sql(
            f"SELECT max(id) FROM {UNITS} WHERE role = 'stock' AND consumed_by = ''"
            " AND phase = 'Ready' AND deleted_at IS NULL"
        )
        ((self._last_unit, self._last_operation),) = platform.sql(
            f"SELECT (SELECT max(id) FROM {UNITS}), (SELECT max(id) FROM {OPERATIONS})"
        )

    def reset(self) -> None:
        """Delete all copies."""
        sql = self._platform.sql
        sql("DELETE FROM units_unithistory WHERE unit_id > %s", self._last_unit)
        sql(f"DELETE FROM {UNITS} WHERE id > %s", self._last_unit)
        sql(f"UPDATE {UNITS} SET claimed_by_id = NULL WHERE claimed_by_id IS NOT NULL")
        sql(f"DELETE FROM {OPERATIONS} WHERE id > %s", self._last_operation)

    def add_units(self, number: int) -> None:
        """Add ready units, each with the operation that created it and the consumed stock."""
        if not number:
            return
        names = {"operation_id": "'copy-' || n", "object_name": "'copy-' || n"}
        self._copy(OPERATIONS, self._operation, number, names)
        made_by = f"(SELECT o.id FROM {OPERATIONS} o WHERE o.operation_id = 'copy-' || n)"
        row = {"name": "'copy-' || n", "uid": "gen_random_uuid()::text", "due_at": "NULL"}
        self._copy(UNITS, self._unit, number, {**row, "operation_id": made_by})
        used = {"name": "'used-' || n", "consumed_by": "gen_random_uuid()::text"}
        gone = {"deleted_at": "now()", "due_at": "NULL", "phase": "'Terminating'"}
        self._copy(UNITS, self._consumed, number, {**row, **used, **gone})

    def add_stock(self, number: int) -> None:
        """Add claimable stock."""
        row = {"name": "'free-' || n", "uid": "gen_random_uuid()::text", "due_at": "NULL"}
        self._copy(UNITS, self._free, number, row)

    def analyze(self) -> None:
        """Vacuum and analyze, so that autovacuum does not run during a round."""
        self._platform.sql(f"VACUUM ANALYZE {UNITS}")
        self._platform.sql(f"VACUUM ANALYZE {OPERATIONS}")

    def _copy(self, table: str, row: int, number: int, changes: Mapping[str, str]) -> None:
        copy_row(self._platform, table, row, number, changes)


def copy_row(
    platform: RunningPlatform, table: str, row: int, number: int, changes: Mapping[str, str]
) -> None:
    """Insert copies of a row; `changes` are columns as SQL expressions over the number `n`."""
    found = platform.sql(
        "SELECT column_name FROM information_schema.columns"
        " WHERE table_name = %s AND column_name <> 'id'",
        table,
    )
    columns = [f'"{name}"' for (name,) in found]
    values = [changes.get(name, f't."{name}"') for (name,) in found]
    platform.sql(
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)}"
        f" FROM {table} t, generate_series(1, %s) n WHERE t.id = %s",
        number,
        row,
    )
