"""An export has each entry once, and none that was inserted after its start."""

import csv
import io

import pytest

from gpuplatform.audit import selectors
from gpuplatform.audit.exports import FIELDS, csv_lines
from gpuplatform.audit.models import AuditEntry
from gpuplatform.audit.selectors import export
from tests.db.audit.chain import inserted

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("number", [1, 2, 4, 5])
def test_an_export_in_several_reads_is_complete_and_ends(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selectors, "EXPORT_ROWS", 2)
    ids = [inserted(f"unit-{n}") for n in range(number)]
    rows = export(AuditEntry.objects.all())

    first = next(rows)
    inserted("later")

    assert [first.pk, *(row.pk for row in rows)] == ids


@pytest.mark.parametrize("first", ["=", "+", "-", "@", "\t", "\r"])
def test_no_cell_is_a_formula(first: str) -> None:
    inserted(f"{first}1+2")

    [_, line] = csv.reader(io.StringIO("".join(csv_lines(AuditEntry.objects.all())), newline=""))

    assert line[FIELDS.index("objectName")] == f"'{first}1+2"


def test_an_export_without_entries_is_empty() -> None:
    assert list(export(AuditEntry.objects.all())) == []
