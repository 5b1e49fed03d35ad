"""The page of settings matches the table, and the commands print the effective values."""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from gpuplatform.settings.environment import Environment


def run(*arguments: str) -> str:
    output = StringIO()
    call_command(*arguments, stdout=output)
    return output.getvalue()


def test_the_checked_in_page_matches_the_table() -> None:
    assert "match" in run("export_settings", "--check")


def test_the_page_names_every_setting(tmp_path: Path) -> None:
    page = tmp_path / "configuration.md"

    assert f"wrote {page}" in run("export_settings", "--directory", str(tmp_path))

    for name in Environment.model_fields:
        assert f"| `{name.upper()}` |" in page.read_text()
    assert run("export_settings", "--directory", str(tmp_path)) == ""


@pytest.mark.parametrize("content", [None, "something else\n"])
def test_check_fails_on_a_missing_or_stale_page_and_leaves_it(
    tmp_path: Path, content: str | None
) -> None:
    page = tmp_path / "configuration.md"
    if content is not None:
        page.write_text(content)

    with pytest.raises(CommandError, match="make docs"):
        run("export_settings", "--check", "--directory", str(tmp_path))

    assert (page.read_text() if page.exists() else None) == content


def test_show_settings_prints_each_with_its_origin_and_no_password() -> None:
    lines = run("show_settings").splitlines()

    assert [line.split()[0] for line in lines] == [
        name.upper() for name in Environment.model_fields
    ]
    database = next(line for line in lines if line.startswith("DATABASE_URL"))
    assert "environment" in database
    assert ":********@127.0.0.1" in database
