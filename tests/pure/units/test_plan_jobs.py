"""The planner of a unit whose program may end: its Job, its runs and its hand-over."""

from typing import Any

import pytest

from gpuplatform.kube.kinds import DEPLOYMENT, JOB, Manifest
from gpuplatform.planning.plan import Absent, Create, Delete, Patch, Plan, Present, Unknown
from gpuplatform.workloads.pods import STOCK_PRIORITY_CLASS, UNIT_PRIORITY_CLASS
from tests.factories.ending_units import (
    COMPLETE,
    FAILED,
    JOB_UID,
    SUSPENDED,
    ended_pod,
    ending_unit,
    job_pod,
    observed_job,
    unit_job,
)
from tests.factories.planned_units import SOURCE, observed_unit, unit_deployment, unit_pod
from units.core.names import GENERATION_ANNOTATION, RUN_ANNOTATION
from units.core.plan import plan_unit
from units.core.sources import SourceHeld, SourceLost, SourcePending, SourceReference
from units.phases import UnitPhase, UnitReason

HELD = SourceHeld("its pods still exist")
OTHER = SourceReference("stock-other-001", "66666666-2222-4333-8444-555555555555")
SECOND = {"generation": 2}


def actions(plan: Plan) -> list[tuple[type, str]]:
    return [(type(action), action.kind.kind) for action in plan.actions]


def reported(plan: Plan) -> tuple[str, str]:
    assert plan.status is not None
    return plan.status.phase, plan.status.conditions[0].reason


def patched(plan: Plan) -> Manifest:
    [action] = plan.actions
    assert isinstance(action, Patch)
    assert action.kind == JOB
    return action.patch


def at_zero(unit: Manifest, **marks: Any) -> Manifest:
    """Return the Deployment of a unit at zero, written for its generation."""
    return unit_deployment(unit, replicas=0, **marks)


def test_a_job_is_created_suspended_and_started_by_the_next_run() -> None:
    unit = ending_unit()

    made = plan_unit(unit, observed_job())
    started = plan_unit(unit, observed_job(unit_job(unit, suspend=True, run=None)))

    [action] = made.actions
    assert isinstance(action, Create)
    assert (action.kind, action.manifest["spec"]["suspend"]) == (JOB, True)
    assert made.requeue_after is not None
    change = patched(started)
    assert change["spec"] == {"suspend": False, "parallelism": 1}
    assert change["metadata"]["annotations"] == {
        GENERATION_ANNOTATION: "1",
        RUN_ANNOTATION: SOURCE.uid,
    }
    assert change["metadata"]["uid"] == JOB_UID
    assert change["metadata"]["resourceVersion"]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (SourcePending(), UnitReason.WAITING_FOR_STOCK),
        (HELD, UnitReason.WAITING_FOR_STOCK),
    ],
)
@pytest.mark.parametrize("has_job", [True, False])
def test_waitabs_no_job_is_started_before_the_source_is_gone(
    source: Any, reason: UnitReason, *, has_job: bool
) -> None:
    unit = ending_unit()
    job = unit_job(unit, suspend=True) if has_job else Absent()

    plan = plan_unit(unit, observed_job(job, source=source))

    assert not plan.actions
    assert reported(plan) == (UnitPhase.PROGRESSING, reason)


def test_a_job_is_not_started_while_a_pod_of_the_unit_holds_gpus() -> None:
    unit = ending_unit()

    plan = plan_unit(unit, observed_job(unit_job(unit, suspend=True), unit_pod(unit)))

    assert not plan.actions
    assert reported(plan) == (UnitPhase.PROGRESSING, UnitReason.STOPPING)


def test_a_running_job_is_left_alone_and_reported_as_ready() -> None:
    unit = ending_unit()
    ready = job_pod(unit, phase="Running", conditions=[{"type": "Ready", "status": "True"}])

    plan = plan_unit(unit, observed_job(unit_job(unit), ready))

    assert not plan.actions
    assert reported(plan) == (UnitPhase.READY, UnitReason.UNIT_READY)


@pytest.mark.parametrize(
    "tampered",
    [{"parallelism": 2}, {"ttlSecondsAfterFinished": 60}],
    ids=["a second pod", "a time after which the record is deleted"],
)
def test_a_change_of_a_running_job_by_another_client_is_corrected(tampered: Manifest) -> None:
    unit = ending_unit()
    job = unit_job(unit)
    job["spec"] |= tampered

    change = patched(plan_unit(unit, observed_job(job)))

    expected = {"parallelism": 1, "ttlSecondsAfterFinished": None}
    assert {key: change["spec"][key] for key in tampered} == {
        key: expected[key] for key in tampered
    }
    assert RUN_ANNOTATION not in change["metadata"]["annotations"]


def test_an_outdated_unit_decides_nothing() -> None:
    unit = ending_unit()

    for job in (unit_job(unit, suspend=True), unit_job(unit, status=COMPLETE, run=OTHER.uid)):
        plan = plan_unit(unit, observed_job(job, is_outdated=True))

        assert not plan.actions
        assert plan.status is None
        assert plan.requeue_after is not None


def test_rvdep_a_job_that_was_written_for_a_newer_unit_is_left_alone() -> None:
    unit = ending_unit()

    for job in (
        unit_job(unit, suspend=True, generation=2),
        unit_job(ending_unit(image="app:2"), generation=2),
    ):
        assert not plan_unit(unit, observed_job(job)).actions


def test_zero_a_stopped_unit_without_a_job_gets_a_suspended_one() -> None:
    plan = plan_unit(ending_unit(suspend=True), observed_job())

    [action] = plan.actions
    assert isinstance(action, Create)
    assert action.manifest["spec"]["suspend"] is True
    assert action.manifest["metadata"]["annotations"][GENERATION_ANNOTATION] == "1"
    assert reported(plan) == (UnitPhase.PROGRESSING, UnitReason.STOPPING)


def test_a_stop_suspends_the_running_job() -> None:
    unit = ending_unit(suspend=True)

    change = patched(plan_unit(unit, observed_job(unit_job(unit), job_pod(unit))))

    assert change["spec"]["suspend"] is True


def test_stamp_a_stop_changes_a_job_that_is_suspended_already() -> None:
    unit = ending_unit(suspend=True, metadata=SECOND)
    job = unit_job(unit, suspend=True, generation=1, status=SUSPENDED)

    plan = plan_unit(unit, observed_job(job, deployment=at_zero(unit)))
    change = patched(plan)
    stamped = unit_job(unit, suspend=True, generation=2, status=SUSPENDED)
    rests = plan_unit(unit, observed_job(stamped, deployment=at_zero(unit)))

    assert change["metadata"]["annotations"] == {GENERATION_ANNOTATION: "2"}
    assert reported(plan) == (UnitPhase.PROGRESSING, UnitReason.STOPPING)
    assert not rests.actions
    assert reported(rests) == (UnitPhase.STOPPED, UnitReason.STOPPED)


def test_a_stopped_unit_is_reported_after_the_job_controller_observed_the_stop() -> None:
    unit = ending_unit(suspend=True)

    plan = plan_unit(unit, observed_job(unit_job(unit, suspend=True)))

    assert reported(plan) == (UnitPhase.PROGRESSING, UnitReason.STOPPING)


@pytest.mark.parametrize("status", [COMPLETE, FAILED])
def test_a_stop_replaces_a_finished_job_so_that_the_next_start_runs_again(
    status: Manifest,
) -> None:
    unit = ending_unit(suspend=True)
    job = unit_job(unit, status=status)

    plan = plan_unit(unit, observed_job(job))

    metadata = job["metadata"]
    assert plan.actions == [
        Delete(JOB, metadata["namespace"], "unit-trainer", JOB_UID, metadata["resourceVersion"])
    ]


def test_voidstart_a_failed_start_of_an_ended_unit_stops_it() -> None:
    unit = ending_unit()

    plan = plan_unit(
        unit, observed_job(unit_job(unit, status=COMPLETE, run="x"), is_start_void=True)
    )

    assert actions(plan) == [(Delete, "Job")]


@pytest.mark.parametrize("status", [COMPLETE, FAILED])
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"image": "app:2"},
        {"template": {"args": ["--epochs", "3"]}},
        {"template": {"restart": "onFailure"}},
        {"template": {"restart": "always"}},
    ],
    ids=["none", "image", "arguments", "other restart", "always"],
)
def test_an_edit_of_an_ended_unit_does_not_run_the_program_again(
    status: Manifest, change: dict[str, Any]
) -> None:
    before = ending_unit()
    unit = ending_unit(metadata=SECOND, **change)

    plan = plan_unit(unit, observed_job(unit_job(before, status=status, generation=1)))

    assert not plan.actions
    assert reported(plan)[1] in {UnitReason.PROGRAM_SUCCEEDED, UnitReason.PROGRAM_FAILED}


def test_a_start_of_an_ended_unit_is_a_new_run() -> None:
    unit = ending_unit(metadata={"annotations": OTHER.annotations()})
    ended = unit_job(unit, status=COMPLETE)

    waits = plan_unit(unit, observed_job(ended, source=SourcePending()))
    plan = plan_unit(unit, observed_job(ended))
    after = plan_unit(unit, observed_job())

    assert not waits.actions
    assert reported(waits) == (UnitPhase.PROGRESSING, UnitReason.WAITING_FOR_STOCK)
    assert actions(plan) == [(Delete, "Job")]
    assert actions(after) == [(Create, "Job")]


def test_a_unit_that_lost_its_source_annotations_does_not_run_again() -> None:
    unit = ending_unit(metadata={"annotations": {}})

    plan = plan_unit(unit, observed_job(unit_job(unit, status=COMPLETE), source=SourceLost()))

    assert not plan.actions
    assert reported(plan) == (UnitPhase.SUCCEEDED, UnitReason.PROGRAM_SUCCEEDED)


def test_a_program_does_not_run_again_if_its_finished_job_is_deleted() -> None:
    unit = ending_unit()
    ended = plan_unit(unit, observed_job(unit_job(unit, status=COMPLETE), ended_pod(unit, 0)))
    recorded = {**unit, "status": _written(ended)}

    plan = plan_unit(recorded, observed_job())

    assert not plan.actions
    assert reported(plan) == (UnitPhase.SUCCEEDED, UnitReason.PROGRAM_SUCCEEDED)
    started = {**recorded, "metadata": {**unit["metadata"], "annotations": OTHER.annotations()}}
    assert actions(plan_unit(started, observed_job())) == [(Create, "Job")]


def test_a_changed_template_replaces_the_job_when_its_pods_hold_no_gpus() -> None:
    before, unit = ending_unit(), ending_unit(metadata=SECOND, image="app:2")
    fence = at_zero(unit)
    job = unit_job(before, generation=1)
    left = unit_pod(before)

    plan = plan_unit(unit, observed_job(job, left, deployment=fence))
    waits = plan_unit(unit, observed_job(Absent(), left, deployment=fence))
    again = plan_unit(unit, observed_job(deployment=fence))

    metadata = job["metadata"]
    assert plan.actions == [
        Delete(JOB, metadata["namespace"], "unit-trainer", JOB_UID, metadata["resourceVersion"])
    ]
    assert not waits.actions
    assert reported(waits) == (UnitPhase.PROGRESSING, UnitReason.STOPPING)
    assert actions(again) == [(Create, "Job")]


def test_a_changed_access_block_does_not_replace_the_job() -> None:
    before = ending_unit(template={"ports": [{"name": "http", "port": 80}]})
    spec = {**before["spec"], "access": {"scheme": "https"}}
    unit = {**before, "spec": spec, "metadata": {**before["metadata"], **SECOND}}

    plan = plan_unit(unit, observed_job(unit_job(before, generation=1)))

    assert [action for action in plan.actions if action.kind == JOB] == []


def test_a_job_with_the_priority_of_another_start_is_replaced_before_it_starts() -> None:
    unit = ending_unit()

    waiting = unit_job(unit, suspend=True, priority=STOCK_PRIORITY_CLASS)
    plan = plan_unit(unit, observed_job(waiting))
    runs = plan_unit(unit, observed_job(unit_job(unit, priority=STOCK_PRIORITY_CLASS)))
    made = plan_unit(unit, observed_job()).actions[0]

    assert actions(plan) == [(Delete, "Job")]
    assert not runs.actions
    assert isinstance(made, Create)
    pod = made.manifest["spec"]["template"]["spec"]
    assert pod["priorityClassName"] == UNIT_PRIORITY_CLASS


def test_a_job_of_another_owner_is_a_name_conflict() -> None:
    unit = ending_unit()
    job = unit_job(unit)
    job["metadata"]["ownerReferences"] = []
    job["metadata"]["labels"] = {}

    plan = plan_unit(unit, observed_job(job))

    assert not plan.actions
    assert reported(plan) == (UnitPhase.FAILED, UnitReason.NAME_CONFLICT)


def test_an_orphaned_job_is_adopted() -> None:
    unit = ending_unit()
    job = unit_job(unit)
    job["metadata"]["ownerReferences"] = []
    job["spec"]["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": JOB_UID}}

    change = patched(plan_unit(unit, observed_job(job)))

    [owner] = change["metadata"]["ownerReferences"]
    assert owner["uid"] == unit["metadata"]["uid"]


@pytest.mark.parametrize("restart", ["never", "always"])
def test_an_unknown_job_is_not_replaced(restart: str) -> None:
    plan = plan_unit(ending_unit(restart), observed_job(Unknown("forbidden")))

    assert not plan.actions
    assert reported(plan) == (UnitPhase.FAILED, UnitReason.UNIT_JOB_SYNC_FAILED)


class TestOtherKind:
    """Changes between a program that is always started again and one that may end."""

    def test_the_deployment_is_at_zero_before_the_job_is_created(self) -> None:
        unit = ending_unit(metadata=SECOND)
        before = ending_unit("always")

        runs = plan_unit(unit, observed_job(deployment=unit_deployment(before)))
        ends = plan_unit(unit, observed_job(Absent(), unit_pod(unit), deployment=at_zero(unit)))
        after = plan_unit(unit, observed_job(deployment=at_zero(unit)))

        [patch] = runs.actions
        assert isinstance(patch, Patch)
        assert (patch.kind, patch.patch["spec"]["replicas"]) == (DEPLOYMENT, 0)
        assert not ends.actions
        assert actions(after) == [(Create, "Job")]

    def test_zero_a_changed_unit_gets_a_deployment_at_zero_before_its_job_starts(self) -> None:
        unit = ending_unit(metadata=SECOND)
        job = unit_job(unit, suspend=True)

        plan = plan_unit(unit, observed_job(job))

        [action] = plan.actions
        assert isinstance(action, Create)
        assert (action.kind, action.manifest["spec"]["replicas"]) == (DEPLOYMENT, 0)
        pod = action.manifest["spec"]["template"]["spec"]
        assert pod["restartPolicy"] == "Always", "a Deployment allows no other value"

    def test_stamp_a_deployment_at_zero_is_written_again_before_the_job_starts(self) -> None:
        unit = ending_unit(metadata=SECOND)
        old = at_zero(ending_unit("always"))

        plan = plan_unit(unit, observed_job(unit_job(unit, suspend=True), deployment=old))

        [action] = plan.actions
        assert isinstance(action, Patch)
        assert action.kind == DEPLOYMENT
        assert action.patch["metadata"]["annotations"][GENERATION_ANNOTATION] == "2"

    def test_a_running_job_needs_no_further_write_to_the_deployment(self) -> None:
        unit = ending_unit(metadata={"generation": 3})
        old = at_zero(ending_unit(metadata=SECOND))

        plan = plan_unit(unit, observed_job(unit_job(unit, generation=2), deployment=old))

        assert not plan.actions

    def test_the_job_is_deleted_before_the_deployment_is_scaled_up(self) -> None:
        unit = ending_unit("always", metadata=SECOND)
        job = unit_job(ending_unit(), generation=1)
        seen: dict[str, Any] = {"kind": DEPLOYMENT, "deployment": Present(at_zero(unit))}

        plan = plan_unit(unit, observed_job(job, **seen))
        after = plan_unit(unit, observed_job(**seen))

        assert actions(plan) == [(Delete, "Job")]
        [patch] = after.actions
        assert isinstance(patch, Patch)
        assert patch.patch["spec"]["replicas"] == 1

    def test_a_stop_stops_both(self) -> None:
        unit = ending_unit(suspend=True, metadata=SECOND)
        old = unit_deployment(ending_unit("always"))

        plan = plan_unit(unit, observed_job(deployment=old))

        assert actions(plan) == [(Patch, "Deployment"), (Create, "Job")]

    def test_a_unit_with_its_first_spec_has_no_deployment(self) -> None:
        unit = ending_unit()

        plan = plan_unit(unit, observed_job())

        assert actions(plan) == [(Create, "Job")]


def test_stock_must_be_started_again() -> None:
    stock = ending_unit(metadata={"namespace": "runtime-stock"})

    plan = plan_unit(stock, observed_unit())

    assert not plan.actions
    assert reported(plan) == (UnitPhase.FAILED, UnitReason.INVALID_SPEC)


def _written(plan: Plan) -> Manifest:
    """Return the status of a plan as it is stored."""
    assert plan.status is not None
    [ready] = plan.status.conditions
    condition = {
        "type": ready.type,
        "status": ready.status,
        "reason": ready.reason,
        "message": ready.message,
        "observedGeneration": ready.observed_generation,
    }
    fields = {key: value for key, value in plan.status.fields.items() if value is not None}
    return {
        **fields,
        "phase": plan.status.phase,
        "cause": plan.status.cause,
        "conditions": [condition],
    }
