"""The coverage page lists every required row, and every test that it names exists."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "tests" / "coverage.md"
ROUTES = ROOT / "docs" / "routes.md"
ROW = re.compile(r"^\| ([\w-]+) \| (.+?) \| (.+) \|$")
NAMED = re.compile(r"`(tests/[^`:]+\.py)::([^`]+)`")
LEAST_WORDS = 5
"""Minimum number of words of a reason without a test."""


def demanded() -> set[str]:
    """Return the id of every required row."""
    chapters = {4: (1, 31), 5: (1, 30), 6: (1, 33), 7: (1, 34), 18: (2, 24)}
    rows = {f"{c}-{n:02d}" for c, (a, b) in chapters.items() for n in range(a, b + 1)}
    spans = [(1, 19), (20, 27), (30, 38), (40, 59), (60, 71), (80, 81), (100, 123), (130, 144)]
    faults = {number for a, b in spans for number in range(a, b + 1)}
    cases = [*range(1, 28, 2), *range(37, 50, 2), *range(53, 60, 2), 69, 71]
    return (
        rows
        | {f"W-{number:02d}" for number in faults | {83, 84, 85, 86, 87, 88, 89, 90, 91, 92}}
        | {f"U{number:02d}" for number in cases}
    )


@cache
def answers() -> list[tuple[str, str]]:
    """Return each row of the page: its id and its tests."""
    rows = [ROW.match(line) for line in PAGE.read_text().splitlines()]
    return [(row[1], row[3]) for row in rows if row and row[1] != "id" and row[1].strip("-")]


def named() -> list[tuple[str, str]]:
    """Return the file and the name of each test that the page names."""
    return sorted({(file, name) for _, proof in answers() for file, name in NAMED.findall(proof)})


@cache
def known_in(file: str) -> frozenset[str]:
    """Return the names of the tests in a file, without importing it."""
    return frozenset(_tests(ast.parse((ROOT / file).read_text()).body, ""))


def _tests(body: list[ast.stmt], prefix: str) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield from _tests(node.body, f"{node.name}::")
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield prefix + node.name


def test_every_demanded_row_is_there_once_and_no_other() -> None:
    ids = [number for number, _ in answers()]

    assert sorted(ids) == sorted(demanded())


def test_every_row_names_a_test_or_the_reason_why_not() -> None:
    silent = [
        number
        for number, proof in answers()
        if not NAMED.search(proof)
        and not (
            proof.startswith(("does not apply: ", "open: "))
            and len(proof.split()) >= LEAST_WORDS
            and proof.endswith(".")
        )
    ]

    assert silent == []


@pytest.mark.parametrize(("file", "name"), named())
def test_every_named_test_exists(file: str, name: str) -> None:
    assert name in known_in(file)


def test_whatever_looks_like_a_test_is_named_in_full() -> None:
    text = PAGE.read_text()

    assert len(re.findall("::test_", text)) == len(NAMED.findall(text))
    assert not re.search(r"(?<!::)test_\w+", re.sub(r"`tests/[^`]+`", "", text))


def test_every_route_of_the_api_is_in_the_table_of_routes() -> None:
    document = yaml.safe_load((ROOT / "docs" / "openapi.yaml").read_text())
    page = ROUTES.read_text()

    assert [path for path in document["paths"] if f"{path}`" not in page] == []
