"""Checks that link targets exist, and that the index lists every page of docs/."""

from pathlib import Path

import pytest

from tests.docs.pages import ROOT, anchors, links, name_of, pages

PAGES = list(pages())
INDEX = ROOT / "docs/README.md"


@pytest.mark.parametrize("page", PAGES, ids=map(name_of, PAGES))
def test_every_link_target_exists(page: Path) -> None:
    broken = []
    for link in links(page):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)

    assert broken == []


def test_every_page_of_the_documentation_is_on_its_index() -> None:
    listed = {(INDEX.parent / link.partition("#")[0]).resolve() for link in links(INDEX)}

    assert [name_of(p) for p in PAGES if p.is_relative_to(INDEX.parent) and p != INDEX] == [
        name_of(p) for p in PAGES if p in listed and p.is_relative_to(INDEX.parent)
    ]


def test_the_first_page_leads_to_the_index() -> None:
    assert "docs/README.md" in links(ROOT / "README.md")
