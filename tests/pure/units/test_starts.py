"""The steps of the start in the status of a unit."""

from datetime import UTC, datetime
from typing import Any

from gpuplatform.kube.kinds import Manifest
from gpuplatform.planning.plan import Absent, Present, Unknown
from tests.factories.inventory import running
from tests.factories.planned_units import (
    observed_unit,
    stock_resource,
    unit_deployment,
    unit_pod,
    unit_resource,
    unit_service,
)
from units.core.plan import plan_unit
from units.core.sources import SourceHeld

AT = datetime(2026, 1, 31, 12, 1, 0, tzinfo=UTC)
CLAIMED = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
TIMES: dict[str, Any] = {"claimed_at": CLAIMED, "at": AT}
OLD = [{"step": "GPU", "since": "2026-01-30T12:00:00Z", "seconds": 1}]


def placed_pod(unit: Manifest) -> Manifest:
    since = {"status": "True", "lastTransitionTime": "2026-01-31T12:00:02Z"}
    return unit_pod(unit, conditions=[{"type": "PodScheduled", **since}])


def reported(unit: Manifest, observed: Any) -> Any:
    status = plan_unit(unit, observed).status
    assert status is not None
    return status.fields["startSteps"]


def test_a_unit_that_waits_for_its_stock_waits_for_its_gpu() -> None:
    observed = observed_unit(source=SourceHeld("its pods still run"), **TIMES)

    assert reported(unit_resource(), observed) == [
        {"step": "GPU", "since": "2026-01-31T12:00:00Z"}
    ]


def test_a_pull_in_progress_is_named_with_its_begin() -> None:
    unit = unit_resource()
    pod = placed_pod(unit)
    event = {"reason": "Pulling", "involvedObject": {"uid": pod["metadata"].get("uid")}}
    deployment = unit_deployment(unit, status=running(1, available=0))
    observed = observed_unit(
        deployment, unit_service(unit), [pod], pod_events=Present([event]), **TIMES
    )

    plan = plan_unit(unit, observed)

    assert [step["step"] for step in reported(unit, observed)] == ["GPU", "ImagePull"]
    assert plan.status is not None
    assert "12:00:02 UTC" in plan.status.conditions[0].message


def test_a_ready_unit_keeps_its_steps() -> None:
    unit = unit_resource(status={"phase": "Ready", "startSteps": OLD})
    observed = observed_unit(unit_deployment(unit), unit_service(unit), [], **TIMES)

    assert reported(unit, observed) == OLD


def test_unread_events_keep_the_steps() -> None:
    unit = unit_resource(status={"phase": "Progressing", "startSteps": OLD})
    deployment = unit_deployment(unit, status=running(1, available=0))
    observed = observed_unit(
        deployment, unit_service(unit), [], pod_events=Unknown("not listed"), **TIMES
    )

    assert reported(unit, observed) == OLD


def test_a_stopped_unit_has_no_steps() -> None:
    unit = unit_resource(status={"phase": "Ready", "startSteps": OLD}, suspend=True)

    assert reported(unit, observed_unit(Absent(), **TIMES)) is None


def test_stock_has_no_steps() -> None:
    unit = stock_resource()
    observed = observed_unit(unit_deployment(unit), pods=[placed_pod(unit)], **TIMES)

    assert reported(unit, observed) is None
