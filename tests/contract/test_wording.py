"""No text of the project contains a banned phrase (`tests/contract/wording.py`)."""

from pathlib import Path

from tests.contract.source_files import name_of
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
