"""Every process accepts a settings file, and exits immediately with all of its errors."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuplatform.settings.reading import REQUIRED

pytestmark = [pytest.mark.processes, pytest.mark.long]
ROOT = Path(__file__).parents[3]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["manage.py", "run_controller", "--config", "{}"], id="controller"),
        pytest.param(
            ["-m", "celery", "-A", "gpuplatform.celery", "worker", "--config={}"], id="worker"
        ),
        pytest.param(
            ["-m", "celery", "-A", "gpuplatform.celery", "beat", "--config", "{}"], id="beat"
        ),
        pytest.param(
            ["-m", "gunicorn", "--config", "python:gpuplatform.processes.webserver"], id="web"
        ),
    ],
)
def test_every_fault_is_on_stderr_and_the_exit_code_is_1(
    tmp_path: Path, arguments: list[str]
) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("GPUPLATFORM_LEASE_SECONDS: 1\nGPUPLATFORM_NOTHING: 1\n")
    given = {} if "{}" in " ".join(arguments) else {"GPUPLATFORM_CONFIG": str(file)}

    ended = run(*(word.format(file) for word in arguments), **given)

    assert ended.returncode == 1, ended.stderr
    assert "GPUPLATFORM_LEASE_SECONDS: Input should be greater" in ended.stderr
    assert f"GPUPLATFORM_NOTHING ({file}): unknown setting" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_management_command_reads_the_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("GPUPLATFORM_LOG_LEVEL: WARNING\n")

    shown = run("manage.py", "show_settings", "--config", str(file)).stdout

    row = next(line for line in shown.splitlines() if line.startswith("GPUPLATFORM_LOG_LEVEL"))
    assert row.split() == ["GPUPLATFORM_LOG_LEVEL", str(file), "WARNING"]


def test_help_needs_no_platform_and_writes_no_file(tmp_path: Path) -> None:
    data = tmp_path / "data"
    required = dict.fromkeys(("GPUPLATFORM_DEV", *REQUIRED), "")

    ended = run("manage.py", "recover", "--help", **required, GPUPLATFORM_DATA=str(data))

    assert (ended.returncode, ended.stderr) == (0, "")
    assert "--dry-run" in ended.stdout
    assert not data.exists()
