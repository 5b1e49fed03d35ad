"""The simulated kubelet expands variables like a real kubelet."""

import pytest

from gpuplatform.dev.simulator.kubelet.behaviour import behaviour_of
from gpuplatform.dev.simulator.kubelet.expansion import (
    expanded,
    expanded_command,
    expanded_environment,
)
from gpuplatform.dev.simulator.kubelet.programs import environment

VARIABLES = {"A": "a", "B": "", "C-1": "$(A)"}
PASSWORD = r"T)T}Bjxl&@s$$z!&UJN(e#cNE5cimmX%"


# From `expand_test.go` of Kubernetes, with other names.
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ""),
        ("$", "$"),
        ("$$", "$"),
        ("$$$", "$$"),
        ("$$$$", "$$"),
        ("$(A)", "a"),
        ("--$(A)--$(A)", "--a--a"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$a"),
        ("$$$$(A)", "$$(A)"),
        ("$(B)", ""),
        ("$(C-1)", "$(A)"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$()", "$()"),
        ("$(A", "$(A"),
        ("$($(A))", "$($(A))"),
        ("$A $HOME ${A}", "$A $HOME ${A}"),
        ("a$", "a$"),
        (PASSWORD, PASSWORD.replace("$$", "$")),
    ],
)
def test_references_and_double_dollars_are_expanded(text: str, found: str) -> None:
    assert expanded(text, VARIABLES) == found


def test_values_and_arguments_see_the_variables_before_them() -> None:
    env = [{"name": "A", "value": "$(B)1"}, {"name": "B", "value": "$(A)2"}, {"name": "C"}]
    container = {"env": env, "command": ["run", "$(B)"], "args": ["$$(A)", "$(C)"]}

    assert expanded_environment(container) == {"A": "$(B)1", "B": "$(B)12", "C": ""}
    assert expanded_command(container) == ["run", "$(B)12", "$(A)", ""]


def test_processes_and_behaviors_have_the_expanded_values() -> None:
    container = {
        "name": "main",
        "env": [{"name": "CODE", "value": "3"}, {"name": "PASSWORD", "value": "a$$b"}],
        "command": ["sh", "-c", "exit $(CODE)"],
    }
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}

    ended = behaviour_of(container).exit
    assert ended is not None
    assert ended.code == 3
    assert environment(pod, container, {}, {})["PASSWORD"] == "a$b"
