"""No image name stands outside of the table of images, and a setting replaces each of them."""

import ast
import os
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuplatform.deployment.installation import CRDS
from gpuplatform.errors import InvalidSpec
from gpuplatform.images import ECHO_IMAGE, IMAGES, PLATFORM_IMAGE
from gpuplatform.settings.environment import Environment
from gpuplatform.settings.reading import OTHERS
from gpuplatform.workloads.template import PodTemplate
from tests.contract.source_files import ROOT, is_test, name_of, parse, python_files
from tests.contract.test_deploy import build

TABLE = ROOT / "gpuplatform" / "images.py"
DEFAULTS = {one.setting: one.default for one in IMAGES}
PLACEHOLDER = PLATFORM_IMAGE.partition(":")[0]
"""The name that the manifests use, and that an overlay replaces."""

REFERENCE = re.compile(
    r"(?P<name>[a-z][a-z0-9._-]*(?::\d+)?(?:/[a-z0-9._-]+)*)"
    r"(?::(?:v?\d+[a-z0-9._-]*|latest)(?:@sha256:[0-9a-f]{64})?|@sha256:[0-9a-f]{64})"
)
ADDRESS = re.compile(r"localhost:\d+")
SHELL_VARIABLE = re.compile(r"\$\{(?P<name>[A-Z_]+):-(?P<default>[^}]*)\}")


def product_files() -> list[Path]:
    """Return the code of an installation.

    The development tools start images only on the simulated cluster, which pulls none.
    """
    tools = ROOT / "gpuplatform" / "dev"
    return [
        path
        for path in python_files()
        if not is_test(path) and tools not in path.parents and path != TABLE
    ]


def literals(path: Path) -> Iterator[str]:
    """Yield the string literals of a module, without the examples of fields and the docstrings."""
    tree = parse(path)
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "examples"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in skipped
        ):
            yield node.value


def is_image(text: str) -> bool:
    """Return whether `text` is the reference of an image with a tag or a digest."""
    return bool(REFERENCE.fullmatch(text)) and not ADDRESS.fullmatch(text)


def images_in(value: Any) -> Iterator[str]:
    """Yield the values of the keys `image` and `…Image` at any depth of a document."""
    match value:
        case Mapping():
            for key, inner in value.items():
                if str(key).endswith(("image", "Image")) and isinstance(inner, str):
                    yield inner
                yield from images_in(inner)
        case Sequence() if not isinstance(value, str):
            for inner in value:
                yield from images_in(inner)
        case _:
            pass


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("busybox:1.36", True),
        ("registry.example.com:5000/team/app:v1", True),
        ("nats:latest", True),
        ("app@sha256:" + "a" * 64, True),
        ("localhost:8080", False),
        ("127.0.0.1:8080", False),
        ("python:", False),
        ("runtime.lokiwager.io/spec", False),
    ],
)
def test_references_are_recognised(text: str, *, expected: bool) -> None:
    assert is_image(text) is expected


@pytest.mark.parametrize("path", product_files(), ids=name_of)
def test_no_module_names_an_image(path: Path) -> None:
    assert [text for text in literals(path) if is_image(text)] == []


def test_no_definition_has_an_image_as_default() -> None:
    def defaults(schema: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(schema, Mapping):
            for name, inner in (schema.get("properties") or {}).items():
                if name.lower().endswith("image") and "default" in inner:
                    yield name, inner["default"]
            for inner in schema.values():
                yield from defaults(inner)
        elif isinstance(schema, list):
            for inner in schema:
                yield from defaults(inner)

    assert list(defaults(list(CRDS))) == []


def test_the_manifests_name_only_the_image_that_an_overlay_replaces() -> None:
    example = ROOT / "deploy" / "overlay-example"
    found = {
        image
        for path in sorted((ROOT / "deploy").rglob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
        for image in images_in(document)
    }
    named = [
        (path.parent, one)
        for path in sorted((ROOT / "deploy").rglob("kustomization.yaml"))
        for one in yaml.safe_load(path.read_text()).get("images") or ()
    ]

    assert found == {PLACEHOLDER}
    assert {one["name"] for _, one in named} == {PLACEHOLDER}
    assert {folder for folder, one in named if "newName" in one} == {example}


def test_compose_names_the_images_of_the_table() -> None:
    document = yaml.safe_load((ROOT / "compose.yaml").read_text())
    variables = [SHELL_VARIABLE.fullmatch(image) for image in images_in(document)]

    assert variables
    found = {one["name"]: one["default"] for one in variables if one}
    assert None not in variables
    assert found.items() <= DEFAULTS.items()


def test_every_image_of_the_table_has_a_setting() -> None:
    document = (ROOT / "compose.yaml").read_text()
    for name, default in DEFAULTS.items():
        field = Environment.model_fields.get(name.lower())
        if field is not None:
            assert field.default == default, name
        else:
            assert f"${{{name}:-{default}}}" in document, name
            assert not name.startswith("GPUPLATFORM_") or name in OTHERS, name


def test_images_of_others_are_pinned_where_nobody_replaces_them() -> None:
    process_images = [one for one in IMAGES if one.setting.lower() in Environment.model_fields]
    foreign = [one.default for one in process_images if one.default != PLATFORM_IMAGE]

    assert foreign
    assert [image for image in foreign if "@sha256:" not in image] == []


def test_compose_gives_the_images_of_pods_to_every_process() -> None:
    environment = yaml.safe_load((ROOT / "compose.yaml").read_text())["x-platform"]["environment"]
    wanted = {one.setting for one in IMAGES if one.setting.lower() in Environment.model_fields}

    assert wanted | {"GPUPLATFORM_PULL_SECRETS"} <= set(environment)


def page_overlay() -> dict[str, Any]:
    """Return the overlay of a site without internet access, as the documentation shows it."""
    page = (ROOT / "docs" / "deploy.md").read_text()
    section = page.partition("\n## Images\n")[2].partition("\n## ")[0]
    [block] = re.findall(r"^ *```yaml\n(.*?)^ *```", section, re.DOTALL | re.MULTILINE)
    overlay: dict[str, Any] = yaml.safe_load(textwrap.dedent(block))
    return overlay


def test_a_site_without_internet_access_needs_only_the_documented_overlay(tmp_path: Path) -> None:
    deploy = Path(os.path.relpath(ROOT / "deploy", tmp_path))
    overlay = page_overlay()
    for field in ("resources", "components"):
        overlay[field] = [str(deploy / path.removeprefix("../../")) for path in overlay[field]]
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))

    objects = build(tmp_path)

    [settings] = [one["data"] for one in objects if one["kind"] == "ConfigMap"]
    accounts = [one for one in objects if one["kind"] == "ServiceAccount"]
    platform = f"registry.example.com/{PLATFORM_IMAGE}"
    assert set(images_in(objects)) == {platform}
    assert settings["GPUPLATFORM_SIDECAR_IMAGE"] == platform
    assert is_image(settings["GPUPLATFORM_RESERVATION_IMAGE"])
    assert settings["GPUPLATFORM_RESERVATION_IMAGE"].startswith("registry.example.com/")
    secret = settings["GPUPLATFORM_PULL_SECRETS"]
    assert accounts
    assert all(one["imagePullSecrets"] == [{"name": secret}] for one in accounts)


def test_the_overlay_example_sets_the_image_of_the_sidecar() -> None:
    objects = build(ROOT / "deploy" / "overlay-example")

    [settings] = [one["data"] for one in objects if one["kind"] == "ConfigMap"]
    assert set(images_in(objects)) == {settings["GPUPLATFORM_SIDECAR_IMAGE"]}


def test_no_template_refers_to_the_documented_pull_secret() -> None:
    [entry] = page_overlay()["configMapGenerator"]
    [secret] = [one.partition("=")[2] for one in entry["literals"] if "PULL_SECRETS" in one]
    reference = {"secretKeyRef": {"name": secret, "key": ".dockerconfigjson"}}

    with pytest.raises(InvalidSpec):
        PodTemplate.parse({"envs": [{"name": "A", "valueFrom": reference}]})


def test_the_documentation_names_every_image() -> None:
    text = (ROOT / "docs" / "deploy.md").read_text()
    table = (ROOT / "docs" / "configuration.md").read_text()

    assert [name for name in DEFAULTS if f"`{name}`" not in table] == []
    for name in ("GPUPLATFORM_SIDECAR_IMAGE", "GPUPLATFORM_RESERVATION_IMAGE"):
        assert f"`{name}`" in text
    assert ECHO_IMAGE.partition(":")[0] == f"{PLACEHOLDER}-echo"
