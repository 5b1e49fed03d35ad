"""Units whose program ends, on an API server with Jobs."""

from typing import Any

import pytest

from gpuplatform.kube.kinds import DEPLOYMENT, JOB, SERVICE, Manifest
from gpuplatform.workloads.causes import StartupCause
from gpuplatform.workloads.objects import _RETRIES
from tests.cluster.tenant_units import HTTP, Units
from units.core.names import object_name
from units.models import GpuUnit
from units.phases import STOCK_NAMESPACE
from units.requests import GpuUnitUpdate
from units.selectors import capacity_by_spec
from units.services.units import unit_update

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]


def program(*command: str, restart: str = "never", **more: Any) -> Manifest:
    return {"command": list(command), "restart": restart, **more}


def active_gpus() -> int:
    [spec] = capacity_by_spec()
    return spec.gpus["active"]


def job(units: Units, row: GpuUnit) -> Manifest:
    found = units.live(JOB, row)
    assert found is not None
    return found


def change(units: Units, name: str, **fields: Any) -> None:
    asked = GpuUnitUpdate.parse({"operationID": f"update-{len(fields)}-{name}", **fields})
    operation = units.finish(unit_update(tenant=units.tenant, name=name, body=asked))
    assert operation.phase == "Succeeded", operation.error_message


def test_a_program_that_ends_well_gives_its_gpus_back(units: Units) -> None:
    units.seed(1)
    units.create("a", template=program("true"))

    row = units.settle("a", "Succeeded", "ProgramSucceeded")

    assert (row.exit_code, row.is_ended, row.ready_replicas) == (0, True, 0)
    assert row.finished_at is not None
    assert active_gpus() == 0
    [pod] = units.pods(row)
    assert pod["status"]["phase"] == "Succeeded"
    assert units.live(DEPLOYMENT, row) is None
    # Another pod gets the GPU.
    assert units.seed(8)[-1].phase == "Ready"


def test_a_program_that_fails_has_its_exit_code(units: Units) -> None:
    units.seed(1)
    units.create("a", template=program("sh", "-c", "exit 3"))

    row = units.settle("a", "Failed", "ProgramFailed")

    assert (row.exit_code, row.cause) == (3, StartupCause.CONTAINER_EXITED)
    assert active_gpus() == 0


def test_a_running_program_is_ready_and_can_be_stopped_and_started(units: Units) -> None:
    units.seed(2)
    # The program does not listen on its port.
    template = {**program("sleep", "infinity"), **HTTP, "readiness": {"none": True}}
    units.create("a", template=template)
    row = units.settle("a", "Ready", "UnitReady")
    assert units.live(SERVICE, row) is not None
    first = job(units, row)["metadata"]["annotations"]

    units.stop("a")
    units.settle("a", "Stopped", "Stopped")
    assert not units.pods(row)
    assert units.start("a").phase == "Succeeded"

    again = units.settle("a", "Ready", "UnitReady")
    second = job(units, again)["metadata"]["annotations"]
    assert first["runtime.lokiwager.io/run"] == row.source_uid
    assert second["runtime.lokiwager.io/run"] == again.source_uid != row.source_uid
    stock = GpuUnit.objects.filter(namespace=STOCK_NAMESPACE, consumed_by=again.uid)
    assert stock.count() == 2


def test_a_start_of_an_ended_unit_runs_the_changed_program(units: Units) -> None:
    units.seed(2)
    units.create("a", template=program("true"))
    first = units.settle("a", "Succeeded")
    uid = job(units, first)["metadata"]["uid"]

    change(units, "a", template=program("sh", "-c", "exit 4"))
    unchanged = units.settle("a", "Succeeded")
    assert job(units, unchanged)["metadata"]["uid"] == uid, "an edit runs nothing"
    assert units.start("a").phase == "Succeeded"

    row = units.settle("a", "Failed", "ProgramFailed")
    assert row.exit_code == 4
    assert job(units, row)["metadata"]["uid"] != uid


def test_an_edit_of_a_running_program_replaces_its_job(units: Units) -> None:
    units.seed(1)
    units.create("a", template=program("sleep", "infinity"))
    row = units.settle("a", "Ready")
    uid = job(units, row)["metadata"]["uid"]

    change(units, "a", template=program("sleep", "infinity", args=["x"]))
    units.until(lambda: (found := units.live(JOB, row)) and found["metadata"]["uid"] != uid)

    units.settle("a", "Ready")
    assert len(units.pods(row)) == 1


def test_another_restart_policy_moves_the_unit_to_the_other_object(units: Units) -> None:
    units.seed(1)
    units.create("a", template=program("sleep", "infinity"))
    row = units.settle("a", "Ready")

    change(units, "a", template=program("sleep", "infinity", restart="always"))
    units.until(lambda: units.live(JOB, row) is None and units.live(DEPLOYMENT, row))
    units.settle("a", "Ready")
    change(units, "a", template=program("sleep", "infinity", restart="onFailure"), image="b:2")
    units.until(lambda: units.live(JOB, row) is not None)
    units.settle("a", "Ready")

    deployment = units.live(DEPLOYMENT, row)
    assert deployment is not None
    assert deployment["spec"]["replicas"] == 0
    assert len(units.pods(row)) == 1


def test_a_program_that_is_restarted_on_failure_fails_at_the_limit(
    units: Units, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(_RETRIES["OnFailure"], "backoffLimit", 1)
    units.seed(1)
    units.create("a", template=program("sh", "-c", "exit 5", restart="onFailure"))

    row = units.settle("a", "Failed", "ProgramFailed")

    # The cluster deletes the pod. Its exit code is known if a run of the reconciler read it.
    assert row.exit_code in {5, None}
    units.until(lambda: not units.pods(row))
    assert units.settle("a", "Failed", "ProgramFailed").exit_code == row.exit_code
    assert active_gpus() == 0


def test_a_deleted_unit_takes_its_job_and_pods_with_it(units: Units) -> None:
    units.seed(1)
    units.create("a", template=program("sleep", "infinity"))
    row = units.settle("a", "Ready")

    units.delete("a")

    units.until(lambda: units.row("a").deleted_at is not None)
    assert units.live(JOB, row) is None
    assert not units.pods(row)


def test_a_job_without_its_owner_reference_is_adopted(units: Units) -> None:
    units.seed(1)
    units.create("a", template=program("sleep", "infinity"))
    row = units.settle("a", "Ready")
    patch = {"metadata": {"ownerReferences": None}}
    units.cluster.merge_patch(JOB, object_name("a"), patch, namespace=units.namespace)

    units.until(lambda: job(units, row)["metadata"].get("ownerReferences"))

    units.settle("a", "Ready")
