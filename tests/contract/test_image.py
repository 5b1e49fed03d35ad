"""The build context of the image: what `.dockerignore` includes and the Dockerfile copies."""

import shlex
import sys
from pathlib import Path, PurePosixPath

import pytest

from tests.image.context import context_files, is_included, read_rules
from tests.image.dockerfile import Build, needed_stages, read_instructions

ROOT = Path(__file__).parents[2]
CONTEXT = frozenset(context_files(ROOT))


def test_the_context_contains_no_development_code() -> None:
    tops = {path.parts[0] for path in CONTEXT}

    assert not {path for path in CONTEXT if path.parts[:2] == ("gpuplatform", "dev")}
    assert not tops & {"tests", "docs", "Makefile", "compose.yaml", ".git", ".venv"}
    assert {path for path in CONTEXT if path.parts[0] == "requirements"} == {
        PurePosixPath("requirements/prod.txt")
    }


def test_everything_that_is_copied_is_in_the_context() -> None:
    copies = [
        shlex.split(arguments)[:-1]
        for keyword, arguments in read_instructions((ROOT / "Dockerfile").read_text())
        if keyword == "COPY" and not arguments.startswith("--from=")
    ]
    sources = {PurePosixPath(source) for words in copies for source in words}

    assert sources
    for source in sources:
        assert any(source in {path, *path.parents} for path in CONTEXT), source


@pytest.mark.parametrize(
    ("path", "included"),
    [
        ("app/module.py", True),
        ("app/inner/module.py", True),
        ("app/dev/module.py", False),
        ("app/__pycache__/module.pyc", False),
        ("app/inner/__pycache__/module.pyc", False),
        ("other/module.py", False),
        ("application.py", False),
    ],
)
def test_the_last_rule_that_applies_decides(path: str, *, included: bool) -> None:
    rules = read_rules("# A comment.\n*\n!app\n**/__pycache__\napp/dev\n")

    assert is_included(PurePosixPath(path), rules) is included


def test_a_stage_finds_programs_of_its_base_in_its_own_root(tmp_path: Path) -> None:
    text = """\
FROM python:3 AS first
ENV PATH=/opt/venv/bin:$PATH
RUN mkdir -p /opt/venv/bin
FROM first AS second
"""
    (tmp_path / "Dockerfile").write_text(text)
    build = Build(tmp_path, [], sys.executable)

    build.run(tmp_path / "stages")

    path = build.stages["second"].env["PATH"].split(":")
    root = build.stages["second"].root
    assert path[:2] == [f"{root}/opt/venv/bin", f"{root}/usr/bin"]
    assert (root / "opt/venv/bin").is_dir()


def test_a_stage_needs_its_base_and_the_stages_that_it_copies_from() -> None:
    instructions = read_instructions((ROOT / "Dockerfile").read_text())

    needed = needed_stages(instructions, ["echo"])

    assert {name for name in needed if ":" not in name} == {"echo", "sidecar", "sidecar-packages"}
    assert {"echo", "platform", "static"} <= needed_stages(instructions, [])
