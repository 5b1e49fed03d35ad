"""Objects that lost their owner reference, and objects that block a deletion."""

import pytest

from gpuplatform.kube.kinds import DEPLOYMENT, SERVICE, ResourceKind
from gpuplatform.planning.ownership import controller_reference
from gpuplatform.planning.plan import EventType, Patch, Plan
from gpuplatform.planning.view import ResourceView
from gpuplatform.workloads.owner import SOON_SECONDS
from tests.factories.planned_units import (
    observed_unit,
    unit_deployment,
    unit_resource,
    unit_service,
)
from units.core.names import UNIT_UID_LABEL
from units.core.plan import plan_unit
from units.phases import UnitPhase, UnitReason


@pytest.mark.parametrize("is_suspended", [False, True], ids=["running", "to be stopped"])
@pytest.mark.parametrize("kind", [DEPLOYMENT, SERVICE], ids=["Deployment", "Service"])
def test_an_object_that_lost_its_owner_reference_is_adopted(
    kind: ResourceKind, *, is_suspended: bool
) -> None:
    unit = unit_resource(suspend=is_suspended)
    parts = {DEPLOYMENT: unit_deployment(unit, replicas=1), SERVICE: unit_service(unit)}
    parts[kind]["metadata"]["ownerReferences"] = []

    plan = plan_unit(unit, observed_unit(parts[DEPLOYMENT], parts[SERVICE]))

    last = plan.actions[-1]
    assert isinstance(last, Patch)
    assert (last.kind, last.patch["metadata"]) == (
        kind,
        {
            "uid": parts[kind]["metadata"]["uid"],
            "resourceVersion": "41",
            "ownerReferences": [controller_reference(ResourceView.of(unit))],
        },
    )
    assert "spec" not in last.patch, "it is neither scaled nor changed by the same write"
    assert plan.requeue_after == SOON_SECONDS


def test_an_orphan_of_the_previous_unit_is_not_adopted() -> None:
    unit = unit_resource()
    left = unit_deployment(unit)
    left["metadata"]["ownerReferences"] = []
    left["spec"]["template"]["metadata"]["labels"][UNIT_UID_LABEL] = "the-one-before"

    plan = plan_unit(unit, observed_unit(left))

    assert not plan.actions
    assert plan.status is not None
    assert plan.status.conditions[0].reason == UnitReason.NAME_CONFLICT


def test_a_foreign_finalizer_that_blocks_the_deletion_is_named() -> None:
    going = {"deletionTimestamp": "2026-01-31T12:00:00Z"}
    held = unit_resource(metadata={**going, "finalizers": ["example.com/held"]})

    plan = plan_unit(held, observed_unit())

    assert not plan.actions
    assert plan.status is not None
    [ready] = plan.status.conditions
    assert plan.status.phase == UnitPhase.TERMINATING
    assert ready.reason == UnitReason.FINALIZERS_REMAIN
    assert "'example.com/held'" in ready.message
    assert plan.status.event is not None
    assert plan.status.event.type is EventType.WARNING
    assert plan_unit(unit_resource(metadata=going), observed_unit()) == Plan()
