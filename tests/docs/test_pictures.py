"""Checks that the images of the README are current and small."""

import xml.etree.ElementTree as ET

from tests.docs.pages import ROOT
from tests.pictures.parts import ARROWS, BOXES, HEIGHT, WIDTH, drawing

PICTURES = ROOT / "docs/pictures"


def test_the_image_of_the_processes_is_current() -> None:
    assert (PICTURES / "parts.svg").read_text() == drawing()
    ET.fromstring(drawing())


def test_every_part_is_in_the_picture_and_arrows_join_parts() -> None:
    for box in BOXES.values():
        assert 0 <= box.x <= WIDTH - box.width
        assert 0 <= box.y <= HEIGHT - box.height
    assert {one for arrow in ARROWS for one in (arrow.start[0], arrow.end[0])} == set(BOXES)


def test_pictures_are_small() -> None:
    assert [p.name for p in PICTURES.iterdir() if p.stat().st_size > 200_000] == []
