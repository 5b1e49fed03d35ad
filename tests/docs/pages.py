"""The pages of the documentation, taken apart: blocks of code, headings, links.

A comment above a block says what the tests make of it:

    <!-- not run: it starts the platform, and the tests have one -->
    <!-- says: "phase":"Ready" -->          its output has this text
    <!-- refused: operation_conflict -->    a request of it is refused, with this code
"""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from typing_extensions import override

ROOT: Final = Path(__file__).parents[2]
LANGUAGES: Final = {"sh", "python", "json", "yaml", "text", ""}
"""Of blocks: the first four are checked, the others are pictures in letters."""

_FENCE: Final = re.compile(r"^( *)```(\w*)\s*$")
_MARK: Final = re.compile(r"^ *<!-- (not run|says|refused): (.+?) -->$")
_HEADING: Final = re.compile(r"^#{1,6} (.+)$")
_LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"")
_FOLDERS: Final = ("docs", "gpuplatform", "inventory", "units", "serverless", "tests/model")


@dataclass(frozen=True, slots=True)
class Block:
    """One block of code."""

    page: str
    line: int
    language: str
    text: str
    mark: str
    """`not run`, `says` or `refused`; empty for an ordinary one."""
    said: str
    """What stands behind the mark."""

    @override
    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> Iterator[Path]:
    """Yield every page that a person reads, sorted."""
    yield from sorted(ROOT.glob("*.md"))
    for folder in _FOLDERS:
        yield from sorted((ROOT / folder).rglob("*.md"))


@cache
def tracked_files() -> tuple[str, ...]:
    """Return the files that git has or would take, as paths below the root."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = listed.stdout.split("\0")
    return tuple(name for name in names if name and (ROOT / name).is_file())


def name_of(page: Path) -> str:
    """Return the path below the root, as a test's id."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """Return the blocks of code of a page, in order."""
    found: list[Block] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    number = 0
    while number < len(lines):
        fence = _FENCE.match(lines[number])
        if fence is None:
            number += 1
            continue
        indent, language = fence.groups()
        end = next(n for n in range(number + 1, len(lines)) if lines[n] == f"{indent}```")
        text = "\n".join(line.removeprefix(indent) for line in lines[number + 1 : end])
        mark = next(iter(_MARK.findall(lines[number - 1])), ("", "")) if number else ("", "")
        found.append(Block(name_of(page), number + 1, language, text, *mark))
        number = end + 1
    return found


def all_blocks(*languages: str) -> list[Block]:
    """Return the blocks of all pages in those languages."""
    return [one for page in pages() for one in blocks(page) if one.language in languages]


def anchors(page: Path) -> set[str]:
    """Return what `#…` may name on a page, as the usual viewers make it of headings."""
    found: set[str] = set()
    for line in _outside_of_blocks(page):
        if heading := _HEADING.match(line):
            plain = re.sub(r"[^\w\- ]", "", heading[1].lower())
            found.add(plain.strip().replace(" ", "-"))
    return found


def links(page: Path) -> list[str]:
    """Return the addresses that a page links to."""
    text = "\n".join(re.sub("`[^`]*`", "", line) for line in _outside_of_blocks(page))
    return [target or source for target, source in _LINK.findall(text)]


def _outside_of_blocks(page: Path) -> Iterator[str]:
    is_inside = False
    for line in page.read_text(encoding="utf-8").splitlines():
        if _FENCE.match(line):
            is_inside = not is_inside
        elif not is_inside:
            yield line
