"""Usage records as CSV and as JSON lines."""

import csv
import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from gpuplatform.clock import rfc3339
from gpuplatform.usage.models import UsageRecord

CSV_TYPE: Final = "text/csv; charset=utf-8"
USAGE_KIND: Final = "UsageRecord"
"""The kind of the object of the audit entries about exports."""

JSONL_TYPE: Final = "application/jsonl; charset=utf-8"


def record_fields(row: UsageRecord) -> dict[str, Any]:
    """Return the fields of a record. Quantities are multiplied by seconds."""
    return {
        "id": str(row.pk),
        "hour": rfc3339(row.hour),
        "tenant": row.tenant.name,
        "kind": row.kind,
        "subject": row.subject,
        "name": row.subject_name,
        "specName": row.spec_name,
        "product": row.product,
        "resourceName": row.resource_name,
        "gpus": row.gpus,
        "seconds": row.milliseconds / 1000,
        "gpuSeconds": row.gpu_milliseconds / 1000,
        "cpuSeconds": row.cpu_milliseconds / 1000,
        "memoryMiBSeconds": row.memory_mib_seconds,
        "count": row.count,
        "estimated": row.is_estimated,
        "sealed": row.sealed_at is not None,
        "corrects": None if row.corrects_id is None else str(row.corrects_id),
    }


FIELDS: Final = (
    *("id", "hour", "tenant", "kind", "subject", "name", "specName", "product", "resourceName"),
    *("gpus", "seconds", "gpuSeconds", "cpuSeconds", "memoryMiBSeconds", "count", "estimated"),
    *("sealed", "corrects"),
)
"""The names of the fields of a record, in the order of the columns."""


def jsonl_lines(rows: Iterable[UsageRecord]) -> Iterator[str]:
    """Yield one line with a JSON object for each record."""
    for row in rows:
        yield json.dumps(record_fields(row), separators=(",", ":")) + "\n"


def csv_lines(rows: Iterable[UsageRecord]) -> Iterator[str]:
    """Yield a line with the names of the columns, and a line for each record.

    Booleans are `true` or `false`. Source: RFC 4180.
    """
    writer = csv.writer(_Echo())
    yield writer.writerow(FIELDS)
    for row in rows:
        yield writer.writerow([_cell(value) for value in record_fields(row).values()])


def _cell(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


class _Echo:
    """A file whose `write` returns the text, as `csv.writer.writerow` then does."""

    def write(self, text: str) -> str:
        return text
