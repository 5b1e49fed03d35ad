"""Audit entries as JSON objects, as JSON lines and as CSV."""

import csv
import json
from collections.abc import Iterable, Iterator
from datetime import UTC
from typing import Any, Final

from gpuplatform.audit.models import AuditEntry

CSV_TYPE: Final = "text/csv; charset=utf-8"
JSONL_TYPE: Final = "application/jsonl; charset=utf-8"

FIELDS: Final = (
    *("id", "at", "actorKind", "actorID", "actor", "tenant", "address", "traceID", "verb"),
    *("objectKind", "objectNamespace", "objectName", "objectUID", "operationID", "outcome"),
    *("code", "changes"),
)
"""The names of the fields of an entry, in the order of the columns."""

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""The first characters of a cell that spreadsheets execute. Source: OWASP, "CSV Injection"."""


def entry_fields(row: AuditEntry) -> dict[str, Any]:
    """Return all fields of an entry as JSON values. The digests of the chain depend on them."""
    values = (
        *(row.pk, row.at.astimezone(UTC).isoformat(timespec="microseconds")),
        *(row.actor_kind, row.actor_id, row.actor, row.tenant, row.address, row.trace_id),
        *(row.verb, row.object_kind, row.object_namespace, row.object_name, row.object_uid),
        *(row.operation_id, row.outcome, row.code, row.changes),
    )
    return dict(zip(FIELDS, values, strict=True))


def jsonl_lines(rows: Iterable[AuditEntry]) -> Iterator[str]:
    """Yield one line with a JSON object for each entry."""
    for row in rows:
        yield json.dumps(entry_fields(row), separators=(",", ":")) + "\n"


def csv_lines(rows: Iterable[AuditEntry]) -> Iterator[str]:
    """Yield a line with the names of the columns, and a line for each entry.

    The changes are a JSON array. Source: RFC 4180.
    """
    writer = csv.writer(_Echo())
    yield writer.writerow(FIELDS)
    for row in rows:
        yield writer.writerow([_cell(value) for value in entry_fields(row).values()])


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return json.dumps(value, separators=(",", ":"))
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


class _Echo:
    """A file whose `write` returns the text, as `csv.writer.writerow` then does."""

    def write(self, text: str) -> str:
        return text
