"""A parser for the pages of the documentation: code blocks, headings and links.

A comment above a block is an instruction for the tests:

    <!-- not run: it starts the platform, and the tests have one -->
    <!-- output: "phase":"Ready" -->        the output contains this text
    <!-- error: operation_conflict -->      a request is rejected with this code
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
"""Languages of code blocks. The first four are checked, the others contain diagrams."""

_FENCE: Final = re.compile(r"^( *)```(\w*)\s*$")
_MARK: Final = re.compile(r"^ *<!-- (not run|output|error): (.+?) -->$")
_HEADING: Final = re.compile(r"^#{1,6} (.+)$")
_LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"")
_FOLDERS: Final = (
    "docs",
    "gpuplatform",
    "inventory",
    "units",
    "serverless",
    "tests/model",
    "tests/node",
)


@dataclass(frozen=True, slots=True)
class Block:
    """A code block of a page."""

    page: str
    line: int
    language: str
    text: str
    mark: str
    """`not run`, `output` or `error`, or an empty string for a block without a comment."""
    argument: str
    """The text after the colon of the comment."""

    @override
    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> Iterator[Path]:
    """Yield the paths of all pages, sorted."""
    yield from sorted(ROOT.glob("*.md"))
    for folder in _FOLDERS:
        yield from sorted((ROOT / folder).rglob("*.md"))


@cache
def tracked_files() -> tuple[str, ...]:
    """Return the tracked files and the untracked files that are not ignored, as relative paths."""
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
    """Return the relative path of a page, which is used as a test id."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page in order."""
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
    """Return the blocks of all pages in the given languages."""
    return [one for page in pages() for one in blocks(page) if one.language in languages]


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub generates them."""
    found: set[str] = set()
    for line in _outside_of_blocks(page):
        if heading := _HEADING.match(line):
            plain = re.sub(r"[^\w\- ]", "", heading[1].lower())
            found.add(plain.strip().replace(" ", "-"))
    return found


def links(page: Path) -> list[str]:
    """Return the targets of the links on a page."""
    text = "\n".join(re.sub("`[^`]*`", "", line) for line in _outside_of_blocks(page))
    return [target or source for target, source in _LINK.findall(text)]


def _outside_of_blocks(page: Path) -> Iterator[str]:
    is_inside = False
    for line in page.read_text(encoding="utf-8").splitlines():
        if _FENCE.match(line):
            is_inside = not is_inside
        elif not is_inside:
            yield line
