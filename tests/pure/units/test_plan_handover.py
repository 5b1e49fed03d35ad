"""The rules of the hand-over in the planner, with their names in the model."""

from typing import Any

import pytest

from gpuplatform.kube.kinds import DEPLOYMENT, GPU_UNIT, Manifest
from gpuplatform.planning.plan import Absent, Create, Delete, Patch, Plan
from gpuplatform.workloads.owner import SOON_SECONDS
from gpuplatform.workloads.pods import STOCK_PRIORITY_CLASS, UNIT_PRIORITY_CLASS
from tests.factories.inventory import running
from tests.factories.planned_units import (
    SOURCE,
    observed_unit,
    stock_resource,
    unit_deployment,
    unit_pod,
    unit_resource,
    unit_service,
)
from units.core.names import GENERATION_ANNOTATION
from units.core.plan import FIRST_WAIT_SECONDS, plan_unit
from units.core.sources import NoSource, Source, SourceGone, SourceHeld, SourceLost, SourcePending
from units.phases import UnitPhase, UnitReason

GONE = SourceGone(may_preempt=True)
HELD = SourceHeld("its pods still run")


def on_deployment(plan: Plan) -> list[Any]:
    return [action for action in plan.actions if action.kind == DEPLOYMENT]


def reported(plan: Plan) -> tuple[str, str, str]:
    assert plan.status is not None
    [ready] = plan.status.conditions
    return plan.status.phase, ready.reason, ready.message


def stopped_deployment(unit: Manifest, *, priority: str = STOCK_PRIORITY_CLASS) -> Manifest:
    return unit_deployment(unit, replicas=0, priority=priority)


def test_consumed_stock_is_deleted_by_uid_without_a_status() -> None:
    stock = stock_resource()

    plan = plan_unit(stock, observed_unit(unit_deployment(stock), consumed_by="a-unit"))

    assert plan.actions == [Delete(GPU_UNIT, "runtime-stock", SOURCE.name, SOURCE.uid)]
    assert plan.status is None, "there is nothing left to write a status into"


def test_consumed_stock_with_an_invalid_spec_is_deleted() -> None:
    plan = plan_unit(stock_resource(memory="lots"), observed_unit(consumed_by="a-unit"))

    assert [type(action) for action in plan.actions] == [Delete]


def test_an_active_unit_is_never_deleted_as_consumed() -> None:
    plan = plan_unit(unit_resource(), observed_unit(consumed_by="a-unit"))

    assert not [action for action in plan.actions if isinstance(action, Delete)]


@pytest.mark.parametrize("is_stopped_before", [False, True], ids=["create", "start"])
def test_arbiter_a_unit_waits_until_it_is_the_consumer_of_its_source(
    is_stopped_before: bool,
) -> None:
    unit = unit_resource()
    before: Any = stopped_deployment(unit) if is_stopped_before else Absent()

    plan = plan_unit(unit, observed_unit(before, source=SourcePending()))

    assert not plan.actions, "it may be a leftover: nothing at all"
    assert reported(plan)[:2] == (UnitPhase.PROGRESSING, UnitReason.WAITING_FOR_STOCK)
    assert SOURCE.name in reported(plan)[2]


@pytest.mark.parametrize("is_stopped_before", [False, True], ids=["create", "start"])
def test_waitabs_a_unit_waits_until_the_pods_of_its_source_have_ended(
    is_stopped_before: bool,
) -> None:
    unit = unit_resource()
    before: Any = stopped_deployment(unit) if is_stopped_before else Absent()

    plan = plan_unit(unit, observed_unit(before, source=HELD))

    assert not on_deployment(plan)
    assert reported(plan)[:2] == (UnitPhase.PROGRESSING, UnitReason.WAITING_FOR_STOCK)
    assert "its pods still run" in reported(plan)[2]


def test_the_service_is_created_while_the_unit_waits_for_its_gpu() -> None:
    plan = plan_unit(unit_resource(), observed_unit(source=HELD))

    assert [action.kind.kind for action in plan.actions] == ["Service"]


def test_the_first_wait_is_shorter_than_the_next() -> None:
    first = plan_unit(unit_resource(), observed_unit(source=HELD))
    waiting = {"type": "Ready", "reason": "WaitingForStock", "observedGeneration": 1}
    again = plan_unit(unit_resource(status={"conditions": [waiting]}), observed_unit(source=HELD))

    assert first.requeue_after == FIRST_WAIT_SECONDS
    assert again.requeue_after == SOON_SECONDS


@pytest.mark.parametrize(
    ("source", "priority"),
    [
        (SourceGone(may_preempt=True), UNIT_PRIORITY_CLASS),
        (SourceGone(may_preempt=False), STOCK_PRIORITY_CLASS),
        (NoSource(), STOCK_PRIORITY_CLASS),
        (SourceLost(), STOCK_PRIORITY_CLASS),
    ],
)
def test_only_the_consumer_of_stock_may_preempt(source: Source, priority: str) -> None:
    [action] = on_deployment(plan_unit(unit_resource(), observed_unit(source=source)))

    assert isinstance(action, Create)
    assert action.manifest["spec"]["template"]["spec"]["priorityClassName"] == priority


@pytest.mark.parametrize(
    "source", [SourceLost(), SourcePending(), HELD, SourceGone(may_preempt=False)]
)
def test_the_source_does_not_change_a_running_unit(source: Source) -> None:
    """The row is deleted after 30 days, and the catalogue can change: no running unit restarts."""
    unit = unit_resource()
    live = unit_deployment(unit, priority=UNIT_PRIORITY_CLASS)

    plan = plan_unit(unit, observed_unit(live, unit_service(unit), source=source))

    assert not plan.actions
    assert reported(plan)[0] == UnitPhase.READY


def test_a_running_unit_is_changed_without_stock() -> None:
    unit = unit_resource(image="app:2")
    live = unit_deployment(unit_resource(), priority=UNIT_PRIORITY_CLASS)

    plan = plan_unit(unit, observed_unit(live, unit_service(unit), source=SourceLost()))

    [action] = plan.actions
    assert isinstance(action, Patch)
    pod = action.patch["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "app:2"
    assert pod["priorityClassName"] == UNIT_PRIORITY_CLASS


def test_a_start_decides_the_priority_again() -> None:
    unit = unit_resource()
    before = stopped_deployment(unit, priority=UNIT_PRIORITY_CLASS)

    plan = plan_unit(unit, observed_unit(before, unit_service(unit), source=SourceLost()))

    [action] = on_deployment(plan)
    assert action.patch["spec"]["template"]["spec"]["priorityClassName"] == STOCK_PRIORITY_CLASS


def test_zero_a_suspended_unit_without_a_deployment_gets_one_at_zero() -> None:
    plan = plan_unit(unit_resource(suspend=True), observed_unit(source=GONE))

    [action] = on_deployment(plan)
    assert isinstance(action, Create)
    assert action.manifest["spec"]["replicas"] == 0
    assert reported(plan)[:2] == (UnitPhase.PROGRESSING, UnitReason.STOPPING)


@pytest.mark.parametrize("source", [NoSource(), SourcePending(), HELD, GONE, SourceLost()])
def test_a_stop_scales_to_zero_whatever_the_source(source: Source) -> None:
    unit = unit_resource(suspend=True)
    live = unit_deployment(unit)

    plan = plan_unit(unit, observed_unit(live, unit_service(unit), source=source))

    [action] = plan.actions
    assert isinstance(action, Patch)
    assert action.patch["spec"]["replicas"] == 0
    assert reported(plan)[:2] == (UnitPhase.PROGRESSING, UnitReason.STOPPING)


def test_voidstart_a_unit_whose_last_start_failed_counts_as_suspended() -> None:
    unit = unit_resource()
    live = stopped_deployment(unit)

    plan = plan_unit(
        unit, observed_unit(live, unit_service(unit), source=GONE, is_start_void=True)
    )

    assert not plan.actions
    assert reported(plan)[:2] == (UnitPhase.STOPPED, UnitReason.STOPPED)
    assert "last start" in reported(plan)[2]


def test_voidstart_scales_a_running_unit_down() -> None:
    unit = unit_resource()

    [action] = on_deployment(
        plan_unit(unit, observed_unit(unit_deployment(unit), is_start_void=True))
    )

    assert action.patch["spec"]["replicas"] == 0


def test_rvdep_a_deployment_is_created_by_post_and_patched_with_its_version() -> None:
    unit = unit_resource()

    [made] = on_deployment(plan_unit(unit, observed_unit(source=GONE)))
    live = stopped_deployment(unit)
    [changed] = on_deployment(plan_unit(unit, observed_unit(live, source=GONE)))

    assert isinstance(made, Create)
    assert isinstance(changed, Patch)
    assert {key: changed.patch["metadata"][key] for key in ("uid", "resourceVersion")} == {
        key: live["metadata"][key] for key in ("uid", "resourceVersion")
    }
    assert changed.patch["spec"]["replicas"] == 1


def test_a_unit_starts_only_when_the_pod_of_its_last_run_is_gone() -> None:
    unit = unit_resource()
    ending = unit_pod(unit, phase="Running")

    waits = plan_unit(unit, observed_unit(stopped_deployment(unit), pods=[ending], source=GONE))
    starts = plan_unit(unit, observed_unit(stopped_deployment(unit), source=GONE))

    assert not on_deployment(waits)
    assert reported(waits)[:2] == (UnitPhase.PROGRESSING, UnitReason.STOPPING)
    assert len(on_deployment(starts)) == 1


def test_a_unit_is_stopped_once_its_pod_is_gone() -> None:
    unit = unit_resource(suspend=True)
    service = unit_service(unit)

    ending = plan_unit(
        unit, observed_unit(stopped_deployment(unit), service, [unit_pod(unit, phase="Running")])
    )
    unseen = plan_unit(
        unit,
        observed_unit(
            unit_deployment(unit, replicas=0, status={**running(0), "observedGeneration": 0}),
            service,
        ),
    )
    gone = plan_unit(unit, observed_unit(stopped_deployment(unit), service))

    assert (
        reported(ending)[:2]
        == reported(unseen)[:2]
        == (UnitPhase.PROGRESSING, UnitReason.STOPPING)
    )
    assert reported(gone)[:2] == (UnitPhase.STOPPED, UnitReason.STOPPED)
    assert not gone.actions
    assert gone.requeue_after is None
    assert gone.status is not None
    assert gone.status.fields["serviceName"] == "unit-trainer", "the Service stays"


def test_an_ended_pod_holds_no_gpu() -> None:
    unit = unit_resource(suspend=True)
    evicted = unit_pod(unit, phase="Failed")

    plan = plan_unit(unit, observed_unit(stopped_deployment(unit), unit_service(unit), [evicted]))

    assert reported(plan)[0] == UnitPhase.STOPPED


def test_a_pod_of_the_previous_unit_does_not_delay_a_start() -> None:
    unit = unit_resource()
    other = unit_pod(unit_resource(metadata={"uid": "the-one-before"}), phase="Running")

    assert on_deployment(plan_unit(unit, observed_unit(pods=[other], source=GONE)))


def test_stamp_a_stop_changes_a_deployment_that_is_at_zero_already() -> None:
    """A late start could otherwise run at the same time as the pods of the next source."""
    before = unit_resource()
    unit = unit_resource(suspend=True, metadata={"generation": 2})

    plan = plan_unit(unit, observed_unit(stopped_deployment(before), unit_service(unit)))

    [action] = on_deployment(plan)
    assert isinstance(action, Patch)
    assert action.patch["metadata"]["annotations"][GENERATION_ANNOTATION] == "2"
    assert action.patch["metadata"]["resourceVersion"]
    assert reported(plan)[1] == UnitReason.STOPPING


@pytest.mark.parametrize("suspend", [False, True])
def test_stamp_a_stale_read_of_the_unit_writes_nothing(
    suspend: bool,
) -> None:
    unit = unit_resource(suspend=suspend)
    later = unit_resource(metadata={"generation": 2})
    live = unit_deployment(later, replicas=1 if suspend else 0)

    plan = plan_unit(unit, observed_unit(live, unit_service(unit), source=GONE))

    assert not on_deployment(plan)
    assert reported(plan)[0] == UnitPhase.PROGRESSING


def test_stamp_a_change_outside_the_pod_writes_nothing() -> None:
    unit = unit_resource(access={"scheme": "https"}, metadata={"generation": 2})

    assert not on_deployment(plan_unit(unit, observed_unit(unit_deployment(unit_resource()))))
