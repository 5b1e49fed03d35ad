"""Tests that run the code blocks of each page twice, in order and in one shell.

The shell has only the variables PATH and HOME. Its working directory is a copy of the source in a
folder with a space in its name. The tests change only the port in a block.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpuplatform.dev.embedded.demo import DEMO_REQUESTS
from tests.acceptance.platform import SPECS, RunningPlatform
from tests.docs.pages import ROOT, Block, blocks, name_of, pages, tracked_files

pytestmark = [
    pytest.mark.processes,
    pytest.mark.long,
    pytest.mark.timeout(640),
    pytest.mark.xdist_group("acceptance"),
]

WALK_SECONDS = 300
FOLLOWED = {
    page: [b for b in blocks(page) if b.language in {"sh", "python"} and b.mark != "not run"]
    for page in pages()
}
PAGES = [page for page, found in FOLLOWED.items() if found]
PRELUDE = """\
exec 2>&1
set -eu
# A rejected request ends the page, unless the block is marked with `error`.
curl() { command curl --fail-with-body --max-time 90 "$@"; }
"""
BEGINS = "-- block {} begins"


@pytest.fixture(scope="module")
def folder(running: RunningPlatform, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source next to the data of the platform, as after `make run`.

    The platform has the GPU spec that the demo of `make run` creates.
    """
    demo = next(one.body for one in DEMO_REQUESTS if one.body.get("name") == "h100-1g")
    running.request("POST", SPECS, demo)
    folder = tmp_path_factory.mktemp("docs") / "gpu platform"
    for file in tracked_files():
        target = folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, target)
    (folder / ".venv").symlink_to(sys.prefix)
    (folder / ".data").symlink_to(running.data)
    return folder


@pytest.mark.parametrize("page", PAGES, ids=map(name_of, PAGES))
def test_a_page_can_be_followed_twice(
    page: Path, platform: RunningPlatform, folder: Path, tmp_path: Path
) -> None:
    script = PRELUDE + "".join(
        _lines(block, number, platform.port, tmp_path)
        for number, block in enumerate(FOLLOWED[page])
    )

    for walk in ("first", "second"):
        done = subprocess.run(
            ["sh", "-c", script],
            cwd=folder,
            env={name: os.environ[name] for name in ("PATH", "HOME")},
            capture_output=True,
            text=True,
            timeout=WALK_SECONDS,
            check=False,
        )

        where = f"{name_of(page)}, {walk} walk"
        assert done.returncode == 0, f"{where} failed:\n{done.stdout[-3000:]}{done.stderr}"
        outputs = _by_block(done.stdout, len(FOLLOWED[page]))
        for block, output in zip(FOLLOWED[page], outputs, strict=True):
            if block.mark:
                assert block.argument in output, f"{block}, {walk} walk, prints:\n{output}"


def _lines(block: Block, number: int, port: int, folder: Path) -> str:
    """Return the shell lines of a block."""
    text = block.text.replace("127.0.0.1:8080", f"127.0.0.1:{port}")
    if block.language == "python":
        program = folder / f"block{number}.py"
        program.write_text(text)
        text = f"{sys.executable} {program}"
    if block.mark == "error":
        text = f"set +e\n{text}\nset -e"
    return f"echo '{BEGINS.format(number)}'\n{text}\n"


def _by_block(output: str, number: int) -> list[str]:
    """Return the output of each block."""
    rest, found = output, []
    for one in reversed(range(number)):
        rest, _, text = rest.rpartition(BEGINS.format(one) + "\n")
        found.append(text)
    return found[::-1]
