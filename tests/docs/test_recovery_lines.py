"""Checks that `manage.py recover` prints the lines that the recovery page explains."""

import re

from tests.docs.pages import ROOT

PAGE = ROOT / "docs/operators/backup.md"
SOURCES = [ROOT / app / "recovery.py" for app in ("inventory", "units", "serverless")]


def _explained() -> list[str]:
    """Return the texts in the first column of the table."""
    _, _, table = PAGE.read_text().partition("| line | meaning |\n|---|---|\n")
    rows, _, _ = table.partition("\n\n")
    cells = [row.split("|")[1] for row in rows.splitlines()]
    return [line.strip("… ") for cell in cells for line in re.findall("`([^`]+)`", cell)]


def test_every_explained_line_is_printed() -> None:
    printed = "".join(source.read_text() for source in SOURCES)

    assert _explained()
    assert [line for line in _explained() if line not in printed] == []
