"""GPU units on real nodes: the hand-over, and the cause that the platform reports of a failure."""

import re
from typing import Any

import pytest

from gpuplatform.clock import parse_rfc3339
from gpuplatform.kube.kinds import SERVICE
from gpuplatform.workloads.causes import StartupCause
from gpuplatform.workloads.startup import POD_STARTUP_FAILED
from tests.cluster.tenant_units import Units
from tests.node.cluster import NodeCluster
from tests.node.images import APP
from tests.node.pods import HTTP, PORT, address, describe
from units.requests import GpuUnitUpdate
from units.selectors import capacity_by_spec
from units.services.units import unit_update

pytestmark = [
    pytest.mark.node,
    pytest.mark.core,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]

MEMORY = "64Mi"
CRASH = 3
"""Exit code of the action `crash`."""
MISSING_SECRET = {
    "name": "TOKEN",
    "valueFrom": {"secretKeyRef": {"name": "missing", "key": "token"}},
}
FAILURES: dict[str, tuple[dict[str, Any], StartupCause]] = {
    "crash": ({"args": ["crash"]}, StartupCause.CONTAINER_EXITED),
    "program that ends": ({"args": ["finish"]}, StartupCause.CONTAINER_EXITED),
    "out of memory": ({"args": ["eat"]}, StartupCause.OUT_OF_MEMORY),
    "missing command": ({"command": ["/missing"]}, StartupCause.CONTAINER_CREATE_FAILED),
    "missing Secret": ({"envs": [MISSING_SECRET]}, StartupCause.CONTAINER_CREATE_FAILED),
}


def test_a_unit_runs_on_the_gpus_of_its_stock(units: Units) -> None:
    [stock] = units.seed(1, memory=MEMORY)
    units.create("a", image=APP, template=HTTP)
    row = units.settle("a", "Ready", "UnitReady")

    stock.refresh_from_db()
    assert (row.source_uid, stock.consumed_by) == (stock.uid, row.uid)
    assert units.pods(stock) == []
    [pod] = units.pods(row)
    found = describe(address(pod))
    assert found["hostname"] == pod["metadata"]["name"]
    gpus = found["environment"]["NVIDIA_VISIBLE_DEVICES"]
    assert re.fullmatch(rf"GPU-{pod['spec']['nodeName']}-\d", gpus)


def test_a_unit_answers_at_its_service(units: Units) -> None:
    units.seed(1, memory=MEMORY)
    units.create("a", image=APP, template=HTTP)
    row = units.settle("a", "Ready")

    service = units.cluster.get(SERVICE, row.service_name, namespace=units.namespace)
    assert service is not None
    [pod] = units.pods(row)
    found = describe(f"http://{service['spec']['clusterIP']}:{PORT}")
    assert found["hostname"] == pod["metadata"]["name"]


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failed_start_is_reported_with_its_cause(units: Units, failure: str) -> None:
    template, cause = FAILURES[failure]
    units.seed(1, memory=MEMORY)

    units.create("a", image=APP, template=template)

    row = units.settle("a", "Failed", POD_STARTUP_FAILED)
    assert row.cause == cause


def test_a_missing_image_is_reported_after_the_grace_period(
    units: Units, nodes: NodeCluster
) -> None:
    units.seed(1, memory=MEMORY)

    units.create("a", image=f"{nodes.registry}/missing:1")

    row = units.settle("a", "Failed", POD_STARTUP_FAILED)
    assert row.cause == StartupCause.IMAGE_PULL_FAILED


def test_stock_and_units_of_a_deleted_unit_release_their_gpus(units: Units) -> None:
    [first, second] = units.seed(2, memory=MEMORY)
    units.create("a", image=APP, template=HTTP)
    units.settle("a", "Ready")

    units.delete("a")

    units.until(lambda: not units.pods(units.row("a")))
    second.refresh_from_db()
    assert (units.pods(first), second.phase) == ([], "Ready")


def test_a_program_that_ends_releases_its_gpus(units: Units) -> None:
    units.seed(1, memory=MEMORY)
    units.create("a", image=APP, template={"args": ["finish"], "restart": "never"})

    row = units.settle("a", "Succeeded", "ProgramSucceeded")

    [pod] = units.pods(row)
    [status] = pod["status"]["containerStatuses"]
    terminated = status["state"]["terminated"]
    assert (row.exit_code, status["restartCount"]) == (0, 0)
    assert row.finished_at == parse_rfc3339(terminated["finishedAt"])
    [spec] = capacity_by_spec()
    assert spec.gpus["active"] == 0


def test_a_program_that_fails_reports_its_last_lines(units: Units) -> None:
    units.seed(2, memory=MEMORY)
    units.create("a", image=APP, template={"args": ["crash"], "restart": "never"})

    row = units.settle("a", "Failed", "ProgramFailed")

    assert (row.exit_code, row.cause) == (CRASH, StartupCause.CONTAINER_EXITED)
    assert "the program fails" in row.message
    # A start is a new run of the changed program.
    body = GpuUnitUpdate.parse(
        {"operationID": "put", "template": {"args": ["finish"], "restart": "never"}}
    )
    units.finish(unit_update(tenant=units.tenant, name="a", body=body))
    units.start("a")
    assert units.settle("a", "Succeeded").exit_code == 0
