"""The status of a unit while its pod starts."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gpuplatform.kube.kinds import Manifest
from gpuplatform.workloads.causes import StartupCause
from tests.factories.inventory import running as started
from tests.factories.inventory import waiting_pod
from tests.factories.planned_units import (
    observed_unit,
    stock_resource,
    unit_deployment,
    unit_pod,
    unit_resource,
    unit_service,
)
from units.core.plan import plan_unit
from units.core.statuses import running
from units.core.view import UnitView
from units.phases import UnitPhase

URL = "http://unit-trainer.runtime-instance.svc.cluster.local:8080"
AT = datetime(2026, 1, 31, 12, 0, 10, tzinfo=UTC)


@pytest.mark.parametrize("unit", [unit_resource(), stock_resource()], ids=["unit", "stock"])
def test_a_failed_pull_within_its_grace_period_is_the_cause_while_the_unit_starts(
    unit: Manifest,
) -> None:
    waiting = waiting_pod("ErrImagePull", "not found")
    waiting["metadata"]["labels"] = unit_pod(unit)["metadata"]["labels"]
    waiting["status"]["startTime"] = "2026-01-31T12:00:00Z"
    deployment = unit_deployment(unit, status=started(1, available=0))
    observed = replace(observed_unit(deployment, pods=[waiting]), at=AT)

    summary = running(UnitView.parse(unit), observed, is_changing=False)

    assert (summary.phase, summary.cause) == (
        UnitPhase.PROGRESSING,
        StartupCause.IMAGE_PULL_FAILED,
    )
    assert "ErrImagePull: not found" in summary.message


@pytest.mark.parametrize("phase", [UnitPhase.READY, UnitPhase.FAILED, UnitPhase.PROGRESSING])
def test_only_a_ready_unit_has_an_access_url(phase: UnitPhase) -> None:
    unit = unit_resource(status={"phase": "Ready", "accessURL": URL})
    pod = unit_pod(unit)
    if phase == UnitPhase.FAILED:
        pod = {**waiting_pod("CreateContainerError", "missing"), "metadata": pod["metadata"]}
    status = started(1, available=1 if phase == UnitPhase.READY else 0)
    deployment = unit_deployment(unit, status=status)

    plan = plan_unit(unit, observed_unit(deployment, unit_service(unit), [pod]))

    assert plan.status is not None
    assert plan.status.phase == phase
    assert plan.status.fields["accessURL"] == (URL if phase == UnitPhase.READY else None)
