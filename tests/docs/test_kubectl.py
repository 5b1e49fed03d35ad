"""What the pages ask of kubectl exists in it: subcommands and options, also where none is run."""

import re
import subprocess
from functools import cache

import pytest

from tests.docs.commands import commands, words_after
from tests.docs.pages import all_blocks

WITH_VALUE = {"-n", "-c", "-o", "-f", "-k", "-l", "--kubeconfig"}
NAMES = ("kubectl", "kube")
"""How the pages call it: `kube` is `kubectl` with a kubeconfig."""
PASSED_ON = "$@"
BLOCKS = [block for block in all_blocks("sh") if "kube" in block.text]


@cache
def _said(*words: str) -> str:
    done = subprocess.run(["kubectl", *words], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def _taken_apart(words: list[str]) -> tuple[list[str], list[str]]:
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
    (name, *rest), options = _taken_apart(words)
    page = _said(name, *(word for word in rest[:2] if re.fullmatch("[a-z-]+", word)), "--help")
    if not re.search(rf"\n  kubectl {name}\b", page):
        return [name]
    known = page + _said("options")
    return [one for one in options if not _is_known(one, known)]


@pytest.mark.long
def test_kubectl_knows_what_the_pages_ask_of_it() -> None:
    """One test for all, since kubectl is slow to say what it knows."""
    asked = {
        (str(block), *words)
        for block in BLOCKS
        for command in commands(block.text)
        if command[0] in NAMES and (words := words_after(command, command[0]))
        if PASSED_ON not in words
    }
    unknown = {one: _unknown(list(one[1:])) for one in sorted(asked)}

    assert unknown
    assert {one: words for one, words in unknown.items() if words} == {}
