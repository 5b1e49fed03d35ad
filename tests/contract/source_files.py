"""The files of the repository, for tests that examine the source."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = ("gpuplatform", "inventory", "units", "serverless", "tests")
OTHER = ("templates", "deploy", "docs", "requirements", ".ci", ".github")
TOP_LEVEL_SUFFIXES = {".md", ".toml", ".yaml", ".py", ".in", ".txt", ".sh", ""}
SKIPPED = {"__pycache__", "migrations", "node_modules"}


def python_files() -> Iterator[Path]:
    """Yield every Python file that is not generated."""
    yield ROOT / "manage.py"
    for folder in CODE:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not SKIPPED & set(path.parts):
                yield path


def text_files() -> Iterator[Path]:
    """Yield every text file of the repository."""
    for path in sorted(ROOT.iterdir()):
        if path.is_file() and path.suffix in TOP_LEVEL_SUFFIXES and path.name != ".git":
            yield path
    for folder in (*CODE, *OTHER):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and not SKIPPED & set(path.parts):
                yield path


def name_of(path: Path) -> str:
    """Return the path relative to the root, as the id of a test."""
    return path.relative_to(ROOT).as_posix()


def is_test(path: Path) -> bool:
    """Return whether the file belongs to the tests."""
    return path.relative_to(ROOT).parts[0] == "tests"


def parse(path: Path) -> ast.Module:
    """Return the syntax tree."""
    return ast.parse(path.read_text(), filename=str(path))
