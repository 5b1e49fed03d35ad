"""Programs as people run them: shared memory, long command lines, slow starts, and their end."""

import base64
from typing import Any

import pytest

from gpuplatform.kube.kinds import SECRET
from gpuplatform.workloads.holders import holds_gpu
from tests.cluster.tenant_units import Units
from tests.cluster.world import World
from tests.node.images import APP
from tests.node.pods import HTTP, PORT, address, describe
from units.models import UnitHistory

pytestmark = [
    pytest.mark.node,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]

GIB = 2**30
ARGUMENTS = [f"--option-{number}=$(UNIT_NAME) $${number}" for number in range(299)]
PASSWORD = "T)T}Bjxl&@s$$z!&UJN(e#cNE5cimmX%$(UNIT_NAME)"


def with_variables(**values: Any) -> dict[str, Any]:
    """Return the template of a server with these variables."""
    return {**HTTP, "envs": [{"name": name, "value": str(one)} for name, one in values.items()]}


def found_in(units: Units, name: str) -> Any:
    """Return the description that the only pod of a unit gives of its container."""
    [pod] = units.pods(units.row(name))
    return describe(address(pod))


def restarts(units: Units, name: str) -> int:
    [pod] = units.pods(units.row(name))
    [status] = pod["status"]["containerStatuses"]
    return int(status["restartCount"])


def test_a_loader_uses_a_gibibyte_of_shared_memory(units: Units) -> None:
    units.seed(1, memory="2560Mi")

    units.create("a", image=APP, template=with_variables(SHARED=GIB))

    units.settle("a", "Ready", "UnitReady")
    found = found_in(units, "a")
    assert found["sharedBytes"] == 2560 * 2**20 // 2
    assert found["sharedUsedBytes"] >= GIB


def test_a_program_gets_300_arguments_unchanged(units: Units) -> None:
    units.seed(1, memory="64Mi")

    units.create("a", image=APP, template={**HTTP, "args": ["serve", *ARGUMENTS]})

    units.settle("a", "Ready", "UnitReady")
    assert found_in(units, "a")["arguments"] == ["serve", *ARGUMENTS]


def test_a_password_with_dollars_arrives_unchanged(installed: World, units: Units) -> None:
    data = {"password": base64.b64encode(PASSWORD.encode()).decode()}
    installed.create(SECRET, {"metadata": {"name": "login"}, "data": data})
    reference = {"secretKeyRef": {"name": "login", "key": "password"}}
    envs = [{"name": "PLAIN", "value": PASSWORD}, {"name": "SECRET", "valueFrom": reference}]
    units.seed(1, memory="64Mi")

    units.create("a", image=APP, template={**HTTP, "envs": envs})

    units.settle("a", "Ready", "UnitReady")
    environment = found_in(units, "a")["environment"]
    assert (environment["PLAIN"], environment["SECRET"]) == (PASSWORD, PASSWORD)


@pytest.mark.parametrize(
    "seconds",
    [
        12,
        # A unit does not report a failure while its program loads for minutes.
        pytest.param(120, marks=[pytest.mark.long, pytest.mark.timeout(300)]),
    ],
)
def test_a_server_that_loads_slowly_is_not_restarted(units: Units, seconds: int) -> None:
    probes = {
        "startup": {"httpGet": {"path": "/"}, "seconds": 2 * seconds},
        # Without the probe `startup`, it would restart the container before the end.
        "liveness": {"tcpSocket": {"port": PORT}, "seconds": 1},
    }
    template = {**with_variables(READY_AFTER=f"{seconds}s"), **probes}
    units.seed(1, memory="64Mi")

    units.create("a", image=APP, template=template)

    units.until(lambda: units.row("a").reason == "UnitReady", seconds=2 * seconds + 30)
    assert restarts(units, "a") == 0
    assert not UnitHistory.objects.filter(unit=units.row("a"), phase="Failed").exists()


@pytest.mark.parametrize("code", [0, 3])
def test_a_program_that_ends_while_its_unit_stops_is_no_failure(units: Units, code: int) -> None:
    units.seed(1, memory="64Mi")
    template = with_variables(GRACE="3s", STOP_CODE=code)
    units.create("a", image=APP, template=template)
    units.settle("a", "Ready")

    units.stop("a")

    row = units.settle("a", "Stopped", "Stopped")
    assert not any(map(holds_gpu, units.pods(row)))
    assert not UnitHistory.objects.filter(unit=row, phase="Failed").exists()
