"""Checks that the subcommands and options of `kubectl` on the pages exist."""

import re
import subprocess
from functools import cache

import pytest

from tests.docs.commands import commands, words_after
from tests.docs.pages import all_blocks

WITH_VALUE = {"-n", "-c", "-o", "-f", "-k", "-l", "--kubeconfig"}
NAMES = ("kubectl", "kube")
"""Names of the command on the pages. `kube` is `kubectl` with a kubeconfig."""
PASSED_ON = "$@"
BLOCKS = [block for block in all_blocks("sh") if "kube" in block.text]


@cache
def _output_of(*words: str) -> str:
    done = subprocess.run(["kubectl", *words], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def _parsed(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the subcommand with its arguments, and the options."""
    positional: list[str] = []
    options: list[str] = []
    follows_option = False
    for word in words:
        if word == "--":
            break
        if word.startswith("-"):
            options.append(word.partition("=")[0])
        elif not follows_option:
            positional.append(word)
        follows_option = word in WITH_VALUE
    return positional, options


def _is_known(option: str, page: str) -> bool:
    if option.startswith("--"):
        return f" {option}=" in page
    return all(f" -{letter}, --" in page for letter in option[1:])


def _unknown(words: list[str]) -> list[str]:
    (name, *rest), options = _parsed(words)
    page = _output_of(
        name, *(word for word in rest[:2] if re.fullmatch("[a-z-]+", word)), "--help"
    )
    if not re.search(rf"\n  kubectl {name}\b", page):
        return [name]
    known = page + _output_of("options")
    return [one for one in options if not _is_known(one, known)]


@pytest.mark.long
def test_the_subcommands_and_options_of_kubectl_exist() -> None:
    """One test checks all pages, because `kubectl --help` is slow."""
    used = {
        (str(block), *words)
        for block in BLOCKS
        for command in commands(block.text)
        if command[0] in NAMES and (words := words_after(command, command[0]))
        if PASSED_ON not in words
    }
    unknown = {one: _unknown(list(one[1:])) for one in sorted(used)}

    assert unknown
    assert {one: words for one, words in unknown.items() if words} == {}
