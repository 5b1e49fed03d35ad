"""Checks of code blocks: commands, options, targets and folders exist, and YAML and JSON parse.

`tests/acceptance/test_docs.py` runs the commands.
"""

import ast
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import get_commands, load_command_class

from tests.docs.commands import commands, words_after
from tests.docs.pages import LANGUAGES, ROOT, Block, all_blocks

SHELL = all_blocks("sh")
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
OVERLAY = "deploy/overlays/eu-1"
"""Path of the copy of `deploy/overlay-example` that the pages use."""
NAMESPACE = "deploy/overlays/team-a"
"""Path of the kustomization of an additional namespace."""

each_shell = pytest.mark.parametrize("block", SHELL, ids=str)


def test_every_block_has_a_language() -> None:
    assert [str(b) for b in all_blocks("bash", "console", "shell", "http", "py")] == []
    assert {b.language for b in all_blocks(*LANGUAGES)} <= LANGUAGES
    assert SHELL


def test_a_block_that_is_not_run_has_a_reason() -> None:
    marked = [b for b in all_blocks(*LANGUAGES) if b.mark == "not run"]

    assert [str(b) for b in marked if len(b.argument.split()) < 3] == []


@each_shell
def test_the_shell_syntax_is_valid(block: Block) -> None:
    done = subprocess.run(
        ["bash", "-n"], input=block.text, capture_output=True, text=True, check=False
    )

    assert done.stderr == ""


@each_shell
def test_make_targets_and_management_commands_exist(block: Block) -> None:
    for command in commands(block.text):
        if command[0] == "make":
            targets = [word for word in command[1:] if "=" not in word and word[0] != "-"]
            assert set(targets) <= TARGETS
        words = words_after(command, "manage.py")
        if words is not None:
            assert _unknown_to_manage(words) == []


def _unknown_to_manage(words: list[str]) -> list[str]:
    name, *rest = words
    if name not in get_commands():
        return [name]
    application = get_commands()[name]
    parser = load_command_class(str(application), name).create_parser("manage.py", name)
    known = set(parser._option_string_actions) | {"--config"}
    options = (word.partition("=")[0] for word in rest if word.startswith("-"))
    return [option for option in options if option not in known]


def test_the_overlay_of_the_page_builds(tmp_path: Path) -> None:
    deploy = tmp_path / "deploy"
    shutil.copytree(ROOT / "deploy", deploy)
    shutil.copytree(deploy / "overlay-example", tmp_path / OVERLAY)
    file = tmp_path / OVERLAY / "kustomization.yaml"
    file.write_text(file.read_text().replace("../base", "../../base"))
    (namespace,) = (b.text for b in all_blocks("yaml") if "namespace: team-a" in b.text)
    (tmp_path / NAMESPACE).mkdir()
    (tmp_path / NAMESPACE / "kustomization.yaml").write_text(namespace)
    folders = set()
    for block in SHELL:
        for command in commands(block.text):
            folders |= {b for a, b in pairwise(command) if a == "-k"}
            folders |= set((words_after(command, "kustomize") or [])[:1])

    assert {OVERLAY, NAMESPACE} <= folders
    for folder in sorted(folders):
        done = subprocess.run(
            ["kubectl", "kustomize", str(tmp_path / folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def test_files_that_kubectl_applies_exist() -> None:
    for block in SHELL:
        for command in commands(block.text):
            if command[0] == "kubectl":
                named = (b for a, b in pairwise(command) if a == "-f" and b != "-")
                assert [path for path in named if not (ROOT / path).exists()] == [], str(block)


@pytest.mark.parametrize("block", all_blocks("yaml", "json", "python"), ids=str)
def test_other_blocks_parse(block: Block) -> None:
    parse: dict[str, Callable[[str], Any]] = {
        "yaml": yaml.safe_load,
        "json": json.loads,
        "python": ast.parse,
    }

    assert parse[block.language](block.text)


def test_no_two_pages_use_the_same_operation_id() -> None:
    """Readers and the acceptance tests follow several pages on the same platform."""
    pages: dict[str, set[str]] = {}
    for block in all_blocks("sh", "python"):
        if block.mark != "not run":
            for used in re.findall(r'(?:operationID|invocationID)"?[:=] ?"?([\w-]+)', block.text):
                pages.setdefault(used, set()).add(block.page)

    assert pages
    assert {used: found for used, found in pages.items() if len(found) > 1} == {}
