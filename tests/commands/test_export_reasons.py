"""The page of reasons and codes contains every value of the platform."""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from gpuplatform.api.exceptions import envelope
from gpuplatform.errors import http_errors
from gpuplatform.operations.phases import OperationPhase, OperationWait
from inventory.phases import PoolPhase, PoolReason
from serverless.phases import FailureClass, FunctionReason, FunctionWait, InvocationState
from units.phases import UnitPhase, UnitReason, UnitWait

WORDS = (
    *(OperationPhase, OperationWait, PoolPhase, PoolReason, UnitPhase, UnitReason, UnitWait),
    *(FunctionReason, FunctionWait, FailureClass, InvocationState),
)


def run(*arguments: str) -> str:
    output = StringIO()
    call_command("export_reasons", *arguments, stdout=output)
    return output.getvalue()


def test_the_checked_in_page_matches_the_code() -> None:
    assert "match" in run("--check")


def test_the_page_has_every_value_and_every_code(tmp_path: Path) -> None:
    page = tmp_path / "reasons.md"

    run("--directory", str(tmp_path))

    rows = page.read_text().splitlines()
    for word in (word for words in WORDS for word in words):
        assert any(row.startswith(f"| `{word.value}` | ") for row in rows), word
    for code, kind in http_errors().items():
        assert f"| `{code}` | {kind.http_status} | " in page.read_text()
        assert envelope(kind.example())["error"]["code"] == code


def test_check_fails_on_a_stale_page_and_leaves_it(tmp_path: Path) -> None:
    page = tmp_path / "reasons.md"
    page.write_text("something else\n")

    with pytest.raises(CommandError, match="make docs"):
        run("--check", "--directory", str(tmp_path))

    assert page.read_text() == "something else\n"
