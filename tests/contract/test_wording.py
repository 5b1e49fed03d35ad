"""No text of the project contains a banned phrase (`tests/contract/wording.py`)."""

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from gpuplatform.metrics.declared import METRICS
from tests.contract.source_files import ROOT, name_of
from tests.contract.wording import findings, sources


def test_no_text_contains_a_banned_phrase() -> None:
    found = [
        f"{name_of(path)}:{line}: {phrase}"
        for path in sources()
        for line, phrase in findings(path)
    ]

    assert found == []


def test_a_banned_phrase_is_found_in_strings_comments_and_pages(tmp_path: Path) -> None:
    code, page = tmp_path / "a.py", tmp_path / "a.md"
    code.write_text('TEXT = "whoever calls"\n# It goes on\n# waiting.\n')
    page.write_text("A page.\n\nIt starts by\nitself.\n")

    assert list(findings(code)) == [(1, "whoever"), (2, "goes on")]
    assert [phrase for _, phrase in findings(page)] == ["by itself"]


BANNED_IN_NAMES: Final = frozenset(
    {
        "asked",
        "closed",
        "fault",
        "faults",
        "gone",
        "left",
        "refused",
        "room",
        "said",
        "told",
        "way",
    }
)
ESTABLISHED: Final = frozenset({"cluster_gone"})
"""Codes with the name of an HTTP status."""


def test_no_code_field_or_metric_contains_a_banned_word() -> None:
    documents = [ROOT / "docs" / "openapi.yaml", *(ROOT / "deploy" / "crd").glob("runtime.*.yaml")]
    names = {metric.name for metric in METRICS}
    names |= set(re.findall(r"`(\w+)`", (ROOT / "docs" / "reasons.md").read_text()))
    for document in documents:
        names |= set(names_of(yaml.load(document.read_text(), yaml.CSafeLoader)))

    assert {"gpuplatform_units", "Unschedulable", "quota_exceeded", "largestFree"} <= names
    assert sorted(name for name in names - ESTABLISHED if words(name) & BANNED_IN_NAMES) == []


def names_of(value: Any) -> Iterator[str]:
    """Yield the names of the fields and the values of the enums of a document."""
    children: Collection[Any] = value if isinstance(value, list) else ()
    if isinstance(value, dict):
        children = value.values()
        properties, choices = value.get("properties"), value.get("enum")
        yield from properties if isinstance(properties, dict) else ()
        yield from map(str, choices if isinstance(choices, list) else ())
    for child in children:
        yield from names_of(child)


def words(name: str) -> set[str]:
    """Return the words of a name in snake case or camel case."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}
