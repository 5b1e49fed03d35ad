"""Fields of a template on real nodes: what the kubelet and the container runtime make of them."""

from typing import Any

import pytest

from tests.cluster.tenant_units import Units
from tests.node.images import APP
from tests.node.pods import PORT, address, describe

pytestmark = [
    pytest.mark.node,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]

TEXTS = ["T)T}Bjxl&@s$$z!&UJN(e#cNE5cimmX%", "$(UNIT_NAME) $$$ ${A} $(", "\x1b[31m\u2028"]
TEMPLATE: dict[str, Any] = {
    "args": ["serve", *TEXTS],
    "envs": [
        *({"name": f"TEXT_{number}", "value": text} for number, text in enumerate(TEXTS)),
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    ],
    "ports": [{"name": "ssh", "port": 22}, {"name": "http", "port": PORT}],
    "startup": {"httpGet": {"path": "/"}, "seconds": 60},
    "scratch": {"size": "10Mi"},
    "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
    "securityContext": {"runAsUser": 1000, "fsGroup": 1000, "readOnlyRoot": True},
}


def test_a_unit_runs_its_template_unchanged(units: Units) -> None:
    units.seed(1, memory="64Mi")
    units.create("a", image=APP, template=TEMPLATE, access={"primaryPort": "http"})
    row = units.settle("a", "Ready", "UnitReady")

    [pod] = units.pods(row)
    found = describe(address(pod))
    environment = found["environment"]
    assert found["arguments"] == TEMPLATE["args"]
    assert [environment[f"TEXT_{number}"] for number in range(len(TEXTS))] == TEXTS
    assert environment["POD_IP"] == pod["status"]["podIP"]
    assert pod["metadata"]["annotations"].items() >= TEMPLATE["annotations"].items()
