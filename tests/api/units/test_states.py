"""What a unit says about its state: no URL of what does not respond, and its last failure."""

from typing import Any

import pytest

from gpuplatform.kube.errors import ClusterUnavailable
from gpuplatform.reconciliation import gate
from gpuplatform.workloads.causes import StartupCause
from tests.factories.unit_rows import unit_row
from tests.fakes.api import UNITS, Api
from tests.fakes.cluster import FakeCluster
from units.history import append_history
from units.models import GpuUnit
from units.phases import UnitPhase

pytestmark = pytest.mark.django_db


def shown(api: Api, name: str = "a") -> Any:
    """Return the unit, which a list shows in the same way."""
    unit = api.get(f"{UNITS}/{name}").data
    listed = {key: value for key, value in unit.items() if key != "template"}
    assert listed in api.get(UNITS).data
    return unit


@pytest.mark.parametrize("phase", UnitPhase)
def test_only_a_unit_that_responds_has_an_access_url(api: Api, phase: UnitPhase) -> None:
    unit_row(phase, name="a")

    assert (shown(api)["accessURL"] is not None) is (phase == UnitPhase.READY)


def test_a_unit_that_is_being_stopped_has_no_access_url(api: Api) -> None:
    unit_row(name="a", is_suspended=True)

    assert shown(api)["accessURL"] is None


def test_a_unit_that_is_being_deleted_explains_what_the_deletion_waits_for(
    api: Api, cluster: FakeCluster
) -> None:
    unit_row(name="a")
    unreachable = ClusterUnavailable("The API server does not respond.")
    gate.close(unreachable)

    api.delete(f"{UNITS}/a", operationID="del")

    unit = shown(api)
    assert (unit["phase"], unit["reason"], unit["cause"]) == ("Terminating", "", None)
    assert unit["accessURL"] is None
    assert unit["message"].endswith(str(unreachable))
    assert api.get("/api/v1/operations/del").data["waiting"]["reason"] == "ClusterUnavailable"


def test_a_unit_that_recovered_shows_its_last_failure(api: Api) -> None:
    unit = unit_row(UnitPhase.FAILED, name="a")
    assert shown(api)["lastFailure"] is None, "no change was recorded"
    for cause in (StartupCause.CONTAINER_EXITED, StartupCause.OUT_OF_MEMORY):
        GpuUnit.objects.update(cause=cause)
        append_history(GpuUnit.objects.filter(pk=unit.pk), None)
    GpuUnit.objects.update(phase="Ready", reason="UnitReady", message="", cause="")
    append_history(GpuUnit.objects.filter(pk=unit.pk), None)
    unit_row(name="b")

    found = shown(api)

    assert (found["phase"], found["cause"]) == ("Ready", None)
    failure = found["lastFailure"]
    assert (failure["phase"], failure["reason"]) == ("Failed", "PodStartupFailed")
    assert failure["cause"] == StartupCause.OUT_OF_MEMORY
    assert failure == api.get(f"{UNITS}/a/history").data[1]
    assert shown(api, "b")["lastFailure"] is None
