"""Every page is followed word by word: its blocks are run in order, as one session of a shell.

The platform of the tests stands where the page expects one; nothing else of a block is changed.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.platform import RunningPlatform
from tests.docs.pages import Block, blocks, name_of, pages

pytestmark = [
    pytest.mark.processes,
    pytest.mark.long,
    pytest.mark.timeout(400),
    pytest.mark.xdist_group("acceptance"),
]

PAGE_SECONDS = 300
FOLLOWED = {
    page: [b for b in blocks(page) if b.language in {"sh", "python"} and b.mark != "not run"]
    for page in pages()
}
PAGES = [page for page, found in FOLLOWED.items() if found]
PRELUDE = """\
exec 2>&1
set -eu
# What the API refuses ends the page, unless the page says that it is refused.
curl() { command curl --fail-with-body --max-time 90 "$@"; }
"""
BEGINS = "-- block {} begins"


@pytest.mark.parametrize("page", PAGES, ids=map(name_of, PAGES))
def test_what_a_page_says_can_be_done(
    page: Path, platform: RunningPlatform, tmp_path: Path
) -> None:
    script = PRELUDE + "".join(
        _lines(block, number, platform, tmp_path) for number, block in enumerate(FOLLOWED[page])
    )

    done = subprocess.run(
        ["bash", "-c", script],
        cwd=Path.cwd(),
        env=_environment(platform),
        capture_output=True,
        text=True,
        timeout=PAGE_SECONDS,
        check=False,
    )

    assert done.returncode == 0, f"{name_of(page)} ends so:\n{done.stdout[-3000:]}{done.stderr}"
    said = _by_block(done.stdout, len(FOLLOWED[page]))
    for block, output in zip(FOLLOWED[page], said, strict=True):
        if block.mark:
            assert block.said in output, f"{block} says instead:\n{output}"


def _lines(block: Block, number: int, platform: RunningPlatform, folder: Path) -> str:
    """Return what is run for a block."""
    text = block.text.replace("127.0.0.1:8080", f"127.0.0.1:{platform.port}")
    text = text.replace(".venv/bin/python", sys.executable)
    text = text.replace(".data/kubeconfig", str(platform.kubeconfig))
    if block.language == "python":
        program = folder / f"block{number}.py"
        program.write_text(text)
        text = f"{sys.executable} {program}"
    if block.mark == "refused":
        text = f"set +e\n{text}\nset -e"
    return f"echo '{BEGINS.format(number)}'\n{text}\n"


def _by_block(output: str, number: int) -> list[str]:
    """Return what each block said."""
    rest, found = output, []
    for one in reversed(range(number)):
        rest, _, said = rest.rpartition(BEGINS.format(one) + "\n")
        found.append(said)
    return found[::-1]


def _environment(platform: RunningPlatform) -> dict[str, str]:
    return {**platform.environment(), "PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
