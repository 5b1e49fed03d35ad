"""Measures the branch coverage of the test suite, including every process that it starts.

    python -m tests.measured [PYTEST_ARGS]

Many tests start servers, workers and nodes with a separate environment. A file in the
site-packages directory therefore starts the measurement in every Python process of the virtual
environment. The file exists only during the run.
"""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
START: Final = Path(sysconfig.get_path("purelib")) / "a0_measured.pth"
"""Python reads the files in alphabetical order, and `a1_coverage.pth` reads the variables."""
VARIABLES: Final = {
    "COVERAGE_PROCESS_START": str(ROOT / "pyproject.toml"),
    "COVERAGE_FILE": str(ROOT / ".coverage"),
}


@contextmanager
def every_process_measured() -> Iterator[None]:
    """Measure all processes that start while the context is open."""
    START.write_text(f"import os; os.environ.update({VARIABLES!r})\n")
    try:
        yield
    finally:
        START.unlink()


def main(arguments: list[str]) -> int:
    """Run the tests and combine the measured data. Return the exit code of the tests."""
    tool = [sys.executable, "-m", "coverage"]
    subprocess.run([*tool, "erase"], check=True, cwd=ROOT)
    with every_process_measured():
        tests = subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False, cwd=ROOT)
    environment = {key: value for key, value in os.environ.items() if key not in VARIABLES}
    subprocess.run([*tool, "combine", "--quiet"], check=True, cwd=ROOT, env=environment)
    return tests.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
