"""The end of a unit's program: its phase, exit code, time, cause and last lines."""

from typing import Any

import pytest

from gpuplatform.kube.kinds import JOB, Manifest
from gpuplatform.planning.plan import EventType, Plan
from gpuplatform.workloads.causes import StartupCause
from gpuplatform.workloads.owner import FAILED_SECONDS
from gpuplatform.workloads.pods import CONTAINER_NAME
from tests.factories.ending_units import (
    COMPLETE,
    FAILED,
    FINISHED_AT,
    ended_pod,
    ending_unit,
    job_pod,
    observed_job,
    unit_job,
)
from tests.factories.planned_units import SOURCE
from units.core.plan import plan_unit
from units.phases import UnitPhase, UnitReason

BEFORE_COMPLETE = {"conditions": [{"type": "SuccessCriteriaMet", "status": "True"}]}
BEFORE_FAILED = {"conditions": [{"type": "FailureTarget", "status": "True"}]}


def planned(job_status: Manifest, *pods: Manifest, unit: Manifest | None = None) -> Plan:
    unit = unit or ending_unit()
    return plan_unit(unit, observed_job(unit_job(unit, status=job_status), *pods))


def reported(plan: Plan) -> tuple[str, str, str]:
    assert plan.status is not None
    return plan.status.phase, plan.status.conditions[0].reason, plan.status.cause


def end_of(plan: Plan) -> dict[str, Any]:
    assert plan.status is not None
    names = ("exitCode", "finishedAt", "finishedRun")
    return {name: plan.status.fields[name] for name in names}


def message_of(plan: Plan) -> str:
    assert plan.status is not None
    return plan.status.conditions[0].message


@pytest.mark.parametrize("status", [COMPLETE, BEFORE_COMPLETE])
def test_a_program_that_ends_well_has_succeeded(status: Manifest) -> None:
    plan = planned(status, ended_pod(ending_unit(), 0))

    assert reported(plan) == (UnitPhase.SUCCEEDED, UnitReason.PROGRAM_SUCCEEDED, "")
    assert end_of(plan) == {"exitCode": 0, "finishedAt": FINISHED_AT, "finishedRun": SOURCE.uid}
    assert plan.requeue_after is None
    assert plan.status is not None
    assert plan.status.event is not None
    assert plan.status.event.type == EventType.NORMAL


@pytest.mark.parametrize("status", [FAILED, BEFORE_FAILED])
def test_a_program_that_fails_has_its_exit_code_and_last_lines(status: Manifest) -> None:
    log = "\n".join(f"step {number}" for number in range(2000))

    plan = planned(status, ended_pod(ending_unit(), 3, reason="Error", message=log))

    assert reported(plan) == (
        UnitPhase.FAILED,
        UnitReason.PROGRAM_FAILED,
        StartupCause.CONTAINER_EXITED,
    )
    assert end_of(plan) == {"exitCode": 3, "finishedAt": FINISHED_AT, "finishedRun": SOURCE.uid}
    assert message_of(plan).endswith("step 1999")
    assert len(message_of(plan)) < 1100
    assert plan.requeue_after is None, "nothing changes by itself"


@pytest.mark.parametrize(
    ("terminated", "cause"),
    [
        ({"reason": "OOMKilled"}, StartupCause.OUT_OF_MEMORY),
        ({"reason": "StartError"}, StartupCause.CONTAINER_CREATE_FAILED),
        ({"reason": "Error"}, StartupCause.CONTAINER_EXITED),
        ({}, StartupCause.CONTAINER_EXITED),
    ],
)
def test_the_cause_of_a_failed_program(terminated: Manifest, cause: StartupCause) -> None:
    plan = planned(FAILED, ended_pod(ending_unit(), 137, **terminated))

    assert reported(plan)[2] == cause


def test_the_end_before_the_limit_of_restarts_counts_not_that_of_the_cluster() -> None:
    unit = ending_unit("onFailure")
    states = {
        "name": CONTAINER_NAME,
        "lastState": {"terminated": {"exitCode": 7, "finishedAt": FINISHED_AT}},
        "state": {"terminated": {"exitCode": 143, "finishedAt": "2026-01-31T13:05:00Z"}},
    }
    pod = job_pod(unit, phase="Failed", containerStatuses=[states])
    pod["metadata"]["deletionTimestamp"] = "2026-01-31T13:05:00Z"

    plan = planned(FAILED, pod, unit=unit)

    assert end_of(plan)["exitCode"] == 7
    assert end_of(plan)["finishedAt"] == FINISHED_AT


def test_an_ended_unit_whose_pod_still_holds_gpus_is_progressing() -> None:
    unit = ending_unit("onFailure")
    states = {
        "name": CONTAINER_NAME,
        "lastState": {"terminated": {"exitCode": 7, "finishedAt": FINISHED_AT}},
        "state": {"running": {"startedAt": FINISHED_AT}},
    }

    plan = planned(FAILED, job_pod(unit, phase="Running", containerStatuses=[states]), unit=unit)

    assert reported(plan)[:2] == (UnitPhase.PROGRESSING, UnitReason.PROGRAM_FAILED)
    assert end_of(plan)["exitCode"] == 7
    assert plan.requeue_after is not None


def test_a_recorded_end_remains_when_the_pods_are_deleted() -> None:
    unit = ending_unit()
    message = "The program ended with exit code 3: out of range"
    unit["status"] = {
        "phase": "Failed",
        "cause": "ContainerExited",
        "exitCode": 3,
        "finishedAt": FINISHED_AT,
        "finishedRun": SOURCE.uid,
        "conditions": [{"type": "Ready", "reason": "ProgramFailed", "message": message}],
    }

    plan = planned(FAILED, unit=unit)

    assert reported(plan) == (
        UnitPhase.FAILED,
        UnitReason.PROGRAM_FAILED,
        StartupCause.CONTAINER_EXITED,
    )
    assert end_of(plan)["exitCode"] == 3
    assert message_of(plan) == message


def test_a_recorded_end_survives_an_invalid_spec() -> None:
    unit = ending_unit(memory="lots")
    unit["status"] = {
        "phase": "Succeeded",
        "exitCode": 0,
        "finishedAt": FINISHED_AT,
        "finishedRun": SOURCE.uid,
        "conditions": [{"type": "Ready", "reason": "ProgramSucceeded", "message": "It ended."}],
    }

    invalid = plan_unit(unit, observed_job())
    corrected = ending_unit(metadata={"generation": 2})
    kept = {key: value for key, value in unit["status"].items() if key != "conditions"}
    corrected["status"] = {
        **kept,
        "phase": "Failed",
        "conditions": [{"type": "Ready", "reason": "InvalidSpec", "message": "memory"}],
    }

    assert invalid.status is not None
    assert invalid.status.fields["finishedRun"] == SOURCE.uid
    plan = plan_unit(corrected, observed_job())
    assert not plan.actions
    assert reported(plan) == (UnitPhase.SUCCEEDED, UnitReason.PROGRAM_SUCCEEDED, "")


def test_a_failed_job_without_pods_reports_the_message_of_the_cluster() -> None:
    status = {
        "conditions": [
            {"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "late"}
        ]
    }

    plan = planned(status)

    assert reported(plan) == (
        UnitPhase.FAILED,
        UnitReason.PROGRAM_FAILED,
        StartupCause.POD_FAILED,
    )
    assert end_of(plan)["exitCode"] is None
    assert "late" in message_of(plan)


def test_an_evicted_pod_of_a_failed_job_is_its_cause() -> None:
    unit = ending_unit("onFailure")
    pod = job_pod(unit, phase="Failed", reason="Evicted", message="low on memory")

    plan = planned(FAILED, pod, unit=unit)

    assert reported(plan)[2] == StartupCause.EVICTED


def test_an_ended_pod_is_no_failure_until_the_job_reports_the_outcome() -> None:
    for code in (0, 3):
        plan = planned({}, ended_pod(ending_unit(), code))

        assert reported(plan) == (UnitPhase.PROGRESSING, UnitReason.UNIT_PROGRESSING, "")
        assert not plan.actions


def test_a_pod_that_replaces_an_evicted_one_is_reported() -> None:
    unit = ending_unit()
    evicted = job_pod(
        unit,
        phase="Failed",
        reason="Evicted",
        conditions=[{"type": "DisruptionTarget", "status": "True"}],
    )
    ready = job_pod(
        unit, name="b", phase="Running", conditions=[{"type": "Ready", "status": "True"}]
    )

    waits = planned({}, evicted)
    runs = planned({}, evicted, ready)

    assert reported(waits)[:2] == (UnitPhase.PROGRESSING, UnitReason.UNIT_PROGRESSING)
    assert reported(runs)[:2] == (UnitPhase.READY, UnitReason.UNIT_READY)


def test_a_pod_that_cannot_start_is_a_startup_failure() -> None:
    unit = ending_unit()
    waiting = {"reason": "InvalidImageName", "message": "bad"}
    pod = job_pod(
        unit, containerStatuses=[{"name": CONTAINER_NAME, "state": {"waiting": waiting}}]
    )

    plan = planned({}, pod)

    assert reported(plan) == (
        UnitPhase.FAILED,
        UnitReason.POD_STARTUP_FAILED,
        StartupCause.IMAGE_PULL_FAILED,
    )
    assert plan.requeue_after == FAILED_SECONDS


def test_the_fields_of_an_end_are_removed_when_the_next_run_begins() -> None:
    other = {**SOURCE.annotations(), "runtime.lokiwager.io/source-stock-uid": "another"}
    unit = ending_unit(metadata={"annotations": other})
    unit["status"] = {"phase": "Succeeded", "exitCode": 0, "finishedRun": SOURCE.uid}

    plan = plan_unit(unit, observed_job())

    assert [action.kind for action in plan.actions] == [JOB]
    assert plan.status is not None
    assert plan.status.fields["exitCode"] is None
    assert plan.status.fields["finishedRun"] is None


def test_the_last_end_is_kept_when_the_pod_is_deleted_at_the_limit_of_restarts() -> None:
    unit = ending_unit("onFailure")
    last = {"terminated": {"exitCode": 5, "finishedAt": FINISHED_AT}}
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    states = {"name": CONTAINER_NAME, "lastState": last, "state": waiting}
    crashed = planned({}, job_pod(unit, phase="Running", containerStatuses=[states]), unit=unit)
    assert crashed.status is not None
    assert crashed.status.fields["exitCode"] == 5
    ready = crashed.status.conditions[0]
    unit["status"] = {
        **crashed.status.fields,
        "phase": crashed.status.phase,
        "cause": crashed.status.cause,
        "conditions": [{"type": "Ready", "reason": ready.reason, "message": ready.message}],
    }

    plan = planned(FAILED, unit=unit)

    assert reported(plan) == (
        UnitPhase.FAILED,
        UnitReason.PROGRAM_FAILED,
        StartupCause.CONTAINER_EXITED,
    )
    assert end_of(plan) == {"exitCode": 5, "finishedAt": FINISHED_AT, "finishedRun": SOURCE.uid}
