"""Whether this process can serve requests, for readiness probes."""

import json
from enum import StrEnum
from typing import Final

from django.db import Error as DatabaseFault
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder


class Unready(StrEnum):
    """The cause for which this process cannot serve requests."""

    DATABASE_UNAVAILABLE = "database_unavailable"
    MIGRATIONS_MISSING = "migrations_missing"


class _Applied:
    """The migrations of this release, as soon as the database has all of them."""

    keys: frozenset[tuple[str, str]] = frozenset()


_APPLIED: Final = _Applied()


def readiness() -> tuple[bool, dict[str, object]]:
    """Return whether the database responds and has all migrations, and the document for it."""
    try:
        missing = _missing_migrations()
    except DatabaseFault:
        return False, _document(None, Unready.DATABASE_UNAVAILABLE)
    cause = Unready.MIGRATIONS_MISSING if missing else None
    return not missing, _document(missing, cause)


def _document(missing: int | None, cause: Unready | None) -> dict[str, object]:
    return {"ok": cause is None, "cause": cause, "missingMigrations": missing}


def probed_readiness() -> tuple[bool, bytes]:
    """Return whether the process is ready, and the document as JSON; for a thread of a probe."""
    try:
        ok, document = readiness()
    finally:
        connection.close()
    return ok, json.dumps(document).encode()


def _missing_migrations() -> int:
    """Return the number of migrations of this release that are not applied."""
    if (
        _APPLIED.keys
        and _APPLIED.keys <= MigrationRecorder(connection).applied_migrations().keys()
    ):
        return 0
    executor = MigrationExecutor(connection)  # Reads the files of all migrations.
    missing = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    if not missing:
        _APPLIED.keys = frozenset(executor.loader.applied_migrations)
    return missing
