"""The page of units has a decision about each field that a published manifest cannot keep."""

import re

import pytest

from gpuplatform.workloads.template import PodTemplate
from tests.cluster.published import Published, published
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "users" / "what-a-unit-is.md"
_ROW = re.compile(r"^\| (`.+?) \|", re.MULTILINE)
_NAME = re.compile(r"`(\w+)`")


def decided() -> set[str]:
    """Return the fields in the first column of the tables about manifests."""
    _, _, section = PAGE.read_text().partition("## From a manifest to a unit")
    return {name for row in _ROW.findall(section) for name in _NAME.findall(row)}


@pytest.mark.parametrize("program", published(), ids=lambda program: program.name)
def test_each_omitted_field_of_a_manifest_is_decided(program: Published) -> None:
    assert set(program.omits) <= decided()


def test_no_field_of_a_template_is_called_missing() -> None:
    fields = {field.alias or name for name, field in PodTemplate.model_fields.items()}

    assert fields
    assert decided()
    assert fields & decided() == set()
