"""Every file that names the release has the version of the package."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from gpuplatform import __version__

ROOT = Path(__file__).parents[2]


def test_the_version_is_semantic() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+(-[0-9a-z.]+)?", __version__)


def test_the_package_reads_its_version_from_the_code() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())

    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {
        "attr": "gpuplatform.__version__"
    }


def test_the_manifests_use_the_image_of_the_version() -> None:
    component = ROOT / "deploy" / "components" / "pod" / "kustomization.yaml"
    [image] = yaml.safe_load(component.read_text())["images"]

    assert image == {"name": "gpu-platform", "newTag": f"v{__version__}"}


def test_the_image_is_labelled_with_the_version() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()

    assert re.findall(r'image\.version="([^"]*)"', dockerfile) == [__version__]


@pytest.mark.parametrize("path", ["README.md", "compose.yaml", "docs"])
def test_every_image_of_the_release_is_of_the_version(path: str) -> None:
    place = ROOT / path
    files = [place] if place.is_file() else sorted(place.rglob("*.md"))
    named = re.compile(r"\bgpu-platform(?:-[a-z]+)?:(v?\d[\w.-]*)")

    found = {tag for file in files for tag in named.findall(file.read_text())}

    assert found == {f"v{__version__}"}


def test_the_document_of_the_api_has_the_version() -> None:
    document = yaml.safe_load((ROOT / "docs" / "openapi.yaml").read_text())

    assert document["info"]["version"] == __version__


def test_the_change_log_begins_with_what_is_not_released() -> None:
    headings = re.findall(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)

    assert headings[0] == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", heading) for heading in headings[1:])
