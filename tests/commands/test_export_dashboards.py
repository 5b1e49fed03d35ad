"""`export_dashboards` writes the declared dashboards, and `--check` detects differences."""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from gpuplatform.deployment.dashboards import DASHBOARDS


def export(*arguments: str) -> str:
    output = StringIO()
    call_command("export_dashboards", *arguments, stdout=output)
    return output.getvalue()


def test_the_checked_in_files_match_the_code() -> None:
    assert export("--check")


def test_writes_a_file_for_each_dashboard_and_then_nothing(tmp_path: Path) -> None:
    export("--directory", str(tmp_path))

    assert {path.stem for path in tmp_path.iterdir()} == {one.name for one in DASHBOARDS}
    assert export("--directory", str(tmp_path)) == ""


def test_check_names_the_file_that_differs(tmp_path: Path) -> None:
    export("--directory", str(tmp_path))
    (tmp_path / "units.json").write_text("{}\n")

    with pytest.raises(CommandError, match=r"units\.json"):
        export("--check", "--directory", str(tmp_path))
