"""Objects that lost their owner reference, and objects that block a deletion."""

from typing import Any

import pytest

from gpuplatform.kube.kinds import DEPLOYMENT, SERVICE, Manifest, ResourceKind
from gpuplatform.planning.ownership import (
    MANAGED_BY_LABEL,
    POOL_LABEL,
    POOL_UID_LABEL,
    controller_reference,
)
from gpuplatform.planning.plan import Absent, Observation, Patch, Plan, Present
from gpuplatform.planning.view import ResourceView
from gpuplatform.workloads.owner import SOON_SECONDS, Children
from inventory.core.plan import plan_pool
from inventory.phases import PoolPhase, PoolReason
from tests.factories.inventory import (
    HTTP_PORT,
    POD_SETTINGS,
    live_deployment,
    live_service,
    pool_resource,
    running,
)

PORTS = {"ports": [HTTP_PORT]}
NOTHING: Observation[Manifest] = Absent()


def observed(deployment: Manifest | None = None, service: Manifest | None = None) -> Children:
    return Children(
        deployment=Present(deployment) if deployment else NOTHING,
        service=Present(service) if service else NOTHING,
        pods=Present(()),
        settings=POD_SETTINGS,
    )


def reported(plan: Plan) -> tuple[str, str, str]:
    """Return phase, reason and message of the status."""
    assert plan.status is not None
    [ready] = plan.status.conditions
    return plan.status.phase, ready.reason, ready.message


@pytest.mark.parametrize("owners", [[], None, [{"uid": "friend", "kind": "ConfigMap"}]])
@pytest.mark.parametrize("kind", [DEPLOYMENT, SERVICE], ids=["Deployment", "Service"])
def test_an_object_that_lost_its_owner_reference_is_adopted(
    kind: ResourceKind, owners: Any
) -> None:
    pool = pool_resource(template=PORTS)
    parts = {DEPLOYMENT: live_deployment(pool, status=running(2)), SERVICE: live_service(pool)}
    orphan = parts[kind]
    orphan["metadata"]["ownerReferences"] = owners

    plan = plan_pool(pool, observed(parts[DEPLOYMENT], parts[SERVICE]))

    [action] = plan.actions
    assert isinstance(action, Patch)
    assert (action.kind, list(action.patch)) == (kind, ["metadata"])
    assert action.patch["metadata"] == {
        "uid": orphan["metadata"]["uid"],
        "resourceVersion": "41",
        "ownerReferences": [*(owners or []), controller_reference(ResourceView.of(pool))],
    }
    assert reported(plan)[0] == PoolPhase.PROGRESSING
    assert plan.requeue_after == SOON_SECONDS


def _unmanaged(found: Manifest) -> None:
    found["metadata"]["labels"][MANAGED_BY_LABEL] = "Helm"


def _of_another_pool(found: Manifest) -> None:
    found["metadata"]["labels"][POOL_LABEL] = "other"


def _of_the_pool_before(found: Manifest) -> None:
    found["metadata"]["labels"][POOL_UID_LABEL] = "the-one-before"


def _of_an_older_release(found: Manifest) -> None:
    del found["metadata"]["labels"][POOL_UID_LABEL]


def _selects_others(found: Manifest) -> None:
    found["spec"]["selector"]["matchLabels"] = {"app": "theirs"}


def _is_going(found: Manifest) -> None:
    found["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"


@pytest.mark.parametrize(
    "differ",
    [
        _unmanaged,
        _of_another_pool,
        _of_the_pool_before,
        _of_an_older_release,
        _selects_others,
        _is_going,
    ],
)
def test_an_orphan_without_all_labels_is_not_adopted(differ: Any) -> None:
    pool = pool_resource()
    found = live_deployment(pool, status=running(2))
    found["metadata"]["ownerReferences"] = []
    differ(found)

    plan = plan_pool(pool, observed(found))

    assert not plan.actions
    assert reported(plan)[1] == PoolReason.NAME_CONFLICT


GOING = {"deletionTimestamp": "2026-01-31T12:00:00Z"}


def test_a_foreign_finalizer_that_blocks_the_deletion_is_named() -> None:
    held = {**GOING, "finalizers": ["foregroundDeletion", "example.com/held"]}

    plan = plan_pool(pool_resource(metadata=held), observed())

    phase, reason, message = reported(plan)
    assert not plan.actions
    assert (phase, reason) == (PoolPhase.TERMINATING, PoolReason.FINALIZERS_REMAIN)
    assert "'example.com/held'" in message
    assert "foregroundDeletion" not in message


@pytest.mark.parametrize("finalizers", [[], None, ["foregroundDeletion"], ["orphan"]])
def test_a_deletion_that_awaits_garbage_collection_has_no_status(finalizers: Any) -> None:
    pool = pool_resource(metadata={**GOING, "finalizers": finalizers})

    assert plan_pool(pool, observed()) == Plan()


@pytest.mark.parametrize("name", ["h100", "another"])
def test_an_object_of_the_previous_pool_of_the_name_is_awaited(name: str) -> None:
    pool = pool_resource()
    left = live_deployment(pool, status=running(2))
    left["metadata"]["ownerReferences"] = [
        {"kind": "StockPool", "name": name, "uid": "earlier", "controller": True}
    ]

    plan = plan_pool(pool, observed(left))

    is_awaited = name == "h100"
    assert reported(plan)[:2] == (
        (PoolPhase.PROGRESSING, PoolReason.DEPLOYMENT_PROGRESSING)
        if is_awaited
        else (PoolPhase.FAILED, PoolReason.NAME_CONFLICT)
    )
    assert not plan.actions
