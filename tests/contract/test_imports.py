"""Who may import whom is checked wherever the tests run."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_packages_import_downwards_only() -> None:
    linter = Path(sys.executable).with_name("lint-imports")

    done = subprocess.run(
        [linter, "--no-logo", "--no-cache"],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": str(linter.parent), "GPUPLATFORM_DEV": "1"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout
