"""A program that ends repeatedly is ready for a moment after each start; the unit has failed."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpuplatform.clock import rfc3339
from gpuplatform.kube.kinds import Manifest
from gpuplatform.planning.plan import Absent, Present, StatusSummary
from gpuplatform.workloads.causes import StartupCause
from gpuplatform.workloads.owner import FAILED_SECONDS, Children
from gpuplatform.workloads.startup import PROVEN_SECONDS
from inventory.core.plan import plan_pool
from inventory.phases import PoolPhase
from tests.factories.inventory import POD_SETTINGS, live_deployment, pod, pool_resource
from tests.factories.inventory import running as started
from tests.factories.planned_units import (
    observed_unit,
    unit_deployment,
    unit_pod,
    unit_resource,
    unit_service,
)
from units.core.plan import plan_unit
from units.core.sources import SourceUnread
from units.core.statuses import running
from units.core.view import UnitView
from units.phases import UnitPhase, UnitReason

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
CAUSE = "Pod unit-trainer-a: container app: Error (exit code 3)"


def failed_status(reason: str = "PodStartupFailed", generation: int = 1) -> Manifest:
    found = {"type": "Ready", "status": "False", "reason": reason, "message": CAUSE}
    return {
        "phase": "Failed",
        "cause": "OutOfMemory",
        "conditions": [{**found, "observedGeneration": generation}],
    }


def runs(seconds: float, *, restarts: int = 2) -> dict[str, Any]:
    """Return the status of a pod whose container started this number of seconds ago."""
    started = {"startedAt": rfc3339(NOW - timedelta(seconds=seconds))}
    container = {"name": "app", "state": {"running": started}, "restartCount": restarts}
    return {"phase": "Running", "containerStatuses": [container]}


def summary_of(unit: Manifest, now: dict[str, Any], *, available: int = 1) -> StatusSummary:
    live = unit_deployment(unit)
    live["status"]["availableReplicas"] = available
    seen = observed_unit(
        live, unit_service(unit), [unit_pod(unit, **now)], source=SourceUnread(), at=NOW
    )
    return running(UnitView.parse(unit), seen, is_changing=False)


@pytest.mark.parametrize("available", [0, 1], ids=["not ready yet", "ready for a moment"])
def test_a_recent_restart_keeps_the_failure_and_its_cause(
    available: int,
) -> None:
    found = summary_of(unit_resource(status=failed_status()), runs(5), available=available)

    assert found == StatusSummary(
        UnitPhase.FAILED,
        UnitReason.POD_STARTUP_FAILED,
        CAUSE,
        cause=StartupCause.OUT_OF_MEMORY,
    )


def test_an_unproven_restart_is_checked_again_without_an_event() -> None:
    unit = unit_resource(status=failed_status())
    seen = observed_unit(
        unit_deployment(unit),
        unit_service(unit),
        [unit_pod(unit, **runs(5))],
        source=SourceUnread(),
        at=NOW,
    )

    plan = plan_unit(unit, seen)

    assert plan.status is not None
    assert (plan.status.phase, plan.requeue_after) == (UnitPhase.FAILED, FAILED_SECONDS)


@pytest.mark.parametrize(
    ("status", "now"),
    [
        (failed_status(), runs(PROVEN_SECONDS)),
        (failed_status(), runs(5, restarts=0)),
        (failed_status(), runs(-3600)),
        (failed_status(generation=0), runs(5)),
        (failed_status("UnitDeploymentSyncFailed"), runs(5)),
        (None, runs(5)),
        (failed_status(), {"containerStatuses": [{"restartCount": 2, "state": {"running": {}}}]}),
    ],
    ids=[
        "proven",
        "another pod",
        "clock of the node ahead",
        "another spec",
        "another cause",
        "ended for once",
        "no time",
    ],
)
def test_an_available_unit_is_ready_otherwise(
    status: Manifest | None, now: dict[str, Any]
) -> None:
    assert summary_of(unit_resource(status=status), now).phase == UnitPhase.READY


@pytest.mark.parametrize(
    ("seconds", "phase"), [(5, PoolPhase.FAILED), (PROVEN_SECONDS, PoolPhase.READY)]
)
def test_a_recent_restart_keeps_the_failure_of_a_pool(seconds: float, phase: PoolPhase) -> None:
    pool = pool_resource(status=failed_status())
    up = live_deployment(pool, status=started(pool["spec"]["replicas"]))
    pods: Sequence[Manifest] = [pod(**runs(seconds))]
    seen = Children(Present(up), Absent(), Present(pods), POD_SETTINGS, at=NOW)

    plan = plan_pool(pool, seen)

    assert plan.status is not None
    assert plan.status.phase == phase
