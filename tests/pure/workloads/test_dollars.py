"""Commands, arguments and values reach the process unchanged."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplatform.dev.simulator.kubelet.expansion import (
    expanded,
    expanded_command,
    expanded_environment,
)
from gpuplatform.formats.text import escaped
from gpuplatform.workloads.pods import Size, Workload, pod_spec
from gpuplatform.workloads.template import PodTemplate
from tests.factories.inventory import POD_SETTINGS

SCRIPT = "echo pid $$ in $(UNIT_NAME); A=${B} exec /start.sh $"
PASSWORD = "T)T}Bjxl&@s$$z!&UJN(e#cNE5cimmX%"


def container(template: PodTemplate) -> dict[str, Any]:
    workload = Workload(
        image="app:1",
        template=template,
        environment={"UNIT_NAME": "trainer"},
        size=Size(cpu=None, memory=None, gpu=1),
        is_reservation=False,
        settings=POD_SETTINGS,
    )
    [found] = pod_spec(workload)["containers"]
    assert isinstance(found, dict)
    return found


@given(st.text(alphabet="$()AB ", max_size=12))
def test_expansion_restores_the_text(text: str) -> None:
    assert expanded(escaped(text), {"A": "changed", "": "changed", "AB": "changed"}) == text


@pytest.mark.parametrize("text", ["", "a", "$HOME ${A} $", "a$1", "(A)"])
def test_texts_without_expansion_are_not_escaped(text: str) -> None:
    assert escaped(text) == text


def test_process_has_the_texts_of_the_template() -> None:
    template = PodTemplate.parse(
        {
            "command": ["sh", "-c", SCRIPT],
            "args": ["$(UNIT_NAME)", "$$"],
            "envs": [{"name": "PASSWORD", "value": PASSWORD}, {"name": "B", "value": SCRIPT}],
        }
    )

    found = container(template)

    assert expanded_command(found) == ["sh", "-c", SCRIPT, "$(UNIT_NAME)", "$$"]
    assert expanded_environment(found) == {
        "UNIT_NAME": "trainer",
        "PASSWORD": PASSWORD,
        "B": SCRIPT,
    }
