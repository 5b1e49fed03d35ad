"""Rare states of a unit's objects: names of other owners, other templates, failed reads."""

from typing import Any

import pytest

from gpuplatform.kube.kinds import DEPLOYMENT, JOB, Manifest, ResourceKind
from gpuplatform.planning.plan import Absent, Delete, Observation, Patch, Present, Unknown
from gpuplatform.planning.view import ResourceView
from gpuplatform.workloads.releases import SPEC_HASH_ANNOTATION
from tests.factories.ending_units import (
    COMPLETE,
    FAILED,
    ended_pod,
    ending_unit,
    job_pod,
    observed_job,
    unit_job,
)
from tests.factories.planned_units import UNIT_UID, unit_deployment, unit_resource
from units.core.child import is_decided
from units.core.endings import has_ended
from units.core.names import AVOIDED_NODE_ANNOTATION
from units.core.plan import plan_unit
from units.core.statuses import is_up, unit_deletion_event
from units.phases import UnitReason, UnitRole

AVOIDING = {
    "annotations": {**ending_unit()["metadata"]["annotations"], AVOIDED_NODE_ANNOTATION: "n1"}
}


def test_a_deployment_of_another_owner_does_not_delay_the_job() -> None:
    unit = ending_unit(metadata={"generation": 2})
    foreign = unit_deployment(unit)
    foreign["metadata"]["ownerReferences"] = []

    [action] = plan_unit(
        unit, observed_job(unit_job(unit, suspend=True), deployment=foreign)
    ).actions

    assert isinstance(action, Patch)
    assert (action.kind, action.patch["spec"]["suspend"]) == (JOB, False)


def test_a_start_that_avoids_a_node_replaces_the_suspended_job() -> None:
    unit = ending_unit(metadata=AVOIDING)

    waiting = plan_unit(unit, observed_job(unit_job(ending_unit(), suspend=True)))
    runs = plan_unit(unit, observed_job(unit_job(ending_unit())))

    assert [(type(action), action.kind) for action in waiting.actions] == [(Delete, JOB)]
    assert not runs.actions


@pytest.mark.parametrize(("image", "is_replaced"), [("app:1", False), ("app:2", True)])
def test_the_template_of_a_job_without_annotations_is_compared(
    image: str, *, is_replaced: bool
) -> None:
    unit = ending_unit()
    job = unit_job(ending_unit(image=image))
    del job["metadata"]["annotations"][SPEC_HASH_ANNOTATION]

    [action] = plan_unit(unit, observed_job(job)).actions

    assert isinstance(action, Delete) is is_replaced
    if isinstance(action, Patch):
        assert SPEC_HASH_ANNOTATION in action.patch["metadata"]["annotations"]


def test_only_the_container_of_the_program_has_an_exit_code() -> None:
    unit = ending_unit()
    pod = ended_pod(unit, 3)
    other = {"name": "proxy", "state": {"terminated": {"exitCode": 9}}}
    pod["status"]["containerStatuses"].insert(0, other)
    alone = job_pod(unit, phase="Failed", containerStatuses=[other])

    ended = plan_unit(unit, observed_job(unit_job(unit, status=FAILED), pod)).status
    unknown = plan_unit(unit, observed_job(unit_job(unit, status=FAILED), alone)).status

    assert ended is not None
    assert ended.fields["exitCode"] == 3
    assert unknown is not None
    assert unknown.fields["exitCode"] is None
    assert unknown.conditions[0].reason == UnitReason.PROGRAM_FAILED


@pytest.mark.parametrize(
    ("job", "is_ended"),
    [
        (Present(unit_job(ending_unit(), status=COMPLETE)), True),
        (Present(unit_job(ending_unit())), False),
        (Absent(), False),
        (Unknown("forbidden"), False),
    ],
    ids=["finished", "runs", "absent", "unknown"],
)
def test_a_program_has_ended_only_if_it_is_known(
    job: Observation[Manifest], *, is_ended: bool
) -> None:
    assert has_ended(ResourceView.of(ending_unit()), job) is is_ended


@pytest.mark.parametrize(
    ("kind", "live", "expected"),
    [
        (DEPLOYMENT, unit_deployment(unit_resource()), True),
        (DEPLOYMENT, unit_deployment(unit_resource(), replicas=0), False),
        (DEPLOYMENT, unit_deployment(unit_resource(), priority="foreign"), False),
        (JOB, unit_job(ending_unit()), True),
        (JOB, unit_job(ending_unit(), suspend=True), False),
        (JOB, unit_job(ending_unit(), status=COMPLETE), False),
        (JOB, {**unit_job(ending_unit()), "metadata": {}}, False),
    ],
    ids=["runs", "zero", "priority", "job", "suspended", "ended", "other owner"],
)
def test_a_pod_with_a_priority_of_the_platform_is_decided(
    kind: ResourceKind, live: Manifest, *, expected: bool
) -> None:
    assert is_decided(kind, live, UNIT_UID) is expected


@pytest.mark.parametrize(
    ("deployment", "expected"),
    [
        (Present(unit_deployment(unit_resource())), True),
        (Present(unit_deployment(unit_resource(), replicas=0)), False),
        (Present(unit_deployment(unit_resource(), status={})), False),
        (Absent(), False),
        (Unknown("forbidden"), False),
    ],
    ids=["available", "zero", "not observed", "absent", "unknown"],
)
def test_a_deployment_is_up_if_its_pod_is_available(deployment: Any, *, expected: bool) -> None:
    assert is_up(deployment) is expected


def test_a_deleted_unit_has_an_event_unless_it_was_consumed() -> None:
    assert unit_deletion_event(UnitRole.STOCK, "a-unit") is None
    for role in UnitRole:
        event = unit_deletion_event(role, "")
        assert event is not None
        assert event.reason == "Deleted"
