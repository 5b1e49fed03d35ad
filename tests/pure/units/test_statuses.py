"""What the status of a unit says while its pod starts."""

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
)
from units.core.statuses import running
from units.core.view import UnitView
from units.phases import UnitPhase

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
