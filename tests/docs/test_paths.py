"""Checks that the files and names that the pages mention exist."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, name_of, pages, tracked_files

PAGES = list(pages())
_SPAN = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:py|md|yaml))(?:: (\w+))?")
_ELSEWHERE = (
    ".data/",
    ".venv/",
    "deploy/overlays/",
    "nvidia.com/",
    "amd.com/",
    "runtime.lokiwager.io/",
    "../../",
    "docs/pictures",
)
"""Prefixes of paths that exist only in a running platform, and of text that is not a path."""


@cache
def _files() -> tuple[str, ...]:
    return tuple(f"/{name}" for name in tracked_files())


def _missing(path: str, name: str) -> bool:
    if path.endswith("/"):
        return not any(f"/{path}" in file for file in _files())
    found = [file for file in _files() if file.endswith(f"/{path}")]
    found += [file for file in _files() if f"/{path}/" in file][:1]
    named = re.compile(rf"\b{name}\b")
    return not any(not name or named.search((ROOT / file[1:]).read_text()) for file in found)


@pytest.mark.parametrize("page", PAGES, ids=map(name_of, PAGES))
def test_files_and_names_of_the_code_exist(page: Path) -> None:
    spans = (_PATH.fullmatch(span) for span in _SPAN.findall(page.read_text()))
    mentioned = {match.groups("") for match in spans if match}

    assert [
        path
        for path, name in sorted(mentioned)
        if not path.startswith(_ELSEWHERE) and _missing(path, name)
    ] == []
