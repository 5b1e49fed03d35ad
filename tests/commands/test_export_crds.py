"""`export_crds` writes the schemas of the models, and `--check` detects every difference."""

from io import StringIO
from pathlib import Path

import pytest
import yaml
from django.core.management import CommandError, call_command

FILE = "runtime.lokiwager.io_stockpools.yaml"
UNITS = "runtime.lokiwager.io_gpuunits.yaml"


def export(*arguments: str) -> str:
    output = StringIO()
    call_command("export_crds", *arguments, stdout=output)
    return output.getvalue()


def test_the_checked_in_files_match_the_models() -> None:
    assert "match" in export("--check")


def test_writes_yaml_that_reads_back_and_then_writes_nothing(tmp_path: Path) -> None:
    wrote = export("--directory", str(tmp_path))
    assert FILE in wrote
    assert UNITS in wrote

    crd = yaml.safe_load((tmp_path / FILE).read_text())
    assert crd["metadata"]["name"] == "stockpools.runtime.lokiwager.io"
    assert export("--directory", str(tmp_path)) == ""


@pytest.mark.parametrize("content", [None, "something else\n"])
def test_check_fails_on_a_missing_or_stale_file_and_leaves_it(
    tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / FILE
    if content is not None:
        path.write_text(content)

    with pytest.raises(CommandError, match="make manifests"):
        export("--check", "--directory", str(tmp_path))

    assert (path.read_text() if path.exists() else None) == content
