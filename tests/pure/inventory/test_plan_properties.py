"""Properties of `plan_pool` for arbitrary input, and of its reconciliation loop."""

from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuplatform.kube.kinds import DEPLOYMENT, STOCK_POOL
from gpuplatform.planning.plan import Absent, Delete, Present, Unknown
from gpuplatform.reconciliation.actions import execute
from gpuplatform.workloads.owner import Children
from gpuplatform.workloads.pod_settings import PodSettings
from inventory.core.plan import plan_pool
from inventory.phases import PoolPhase, PoolReason
from inventory.reconcile import observe_pool
from tests.factories.arbitrary import JUNK, examples, observation, owned_object
from tests.factories.inventory import (
    HTTP_PORT,
    POD_SETTINGS,
    live_deployment,
    live_service,
    pool_resource,
    running,
)
from tests.fakes.cluster import FakeCluster

ROUNDS = 6

PLANNED = {PoolPhase.PROGRESSING, PoolPhase.READY, PoolPhase.EMPTY, PoolPhase.FAILED}
"""The phases that a planner writes unless a deletion is in progress."""


def _specs(*memory: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"replicas": st.integers(0, 3), "specName": st.sampled_from(["g1.1", "g2.1"])},
        optional={
            "image": st.sampled_from(["busybox:1", "busybox:2"]),
            "memory": st.sampled_from(memory),
            "template": st.sampled_from([{}, {"ports": [HTTP_PORT]}, {"args": ["a"]}]),
        },
    )


SOUND_SPECS = _specs("1Gi", "1024Mi")
SPECS = _specs("1Gi", "1024Mi", "lots")
POOLS = st.one_of(
    SPECS.map(lambda spec: {**pool_resource(), "spec": spec}),
    st.builds(
        lambda spec, status: {**pool_resource(), "spec": spec, "status": status}, JUNK, JUNK
    ),
)
OBSERVED = st.builds(
    Children,
    deployment=observation(owned_object(live_deployment(pool_resource()))),
    service=observation(owned_object(live_service(pool_resource()))),
    pods=observation(
        st.lists(st.builds(lambda s: {"metadata": {"name": "p"}, "status": s}, JUNK), max_size=3)
    ),
    settings=st.sampled_from([POD_SETTINGS, PodSettings("reserve:2", "sidecar:2")]),
)


@given(POOLS, OBSERVED)
@settings(max_examples=examples(6))
def test_every_input_has_a_plan(pool: dict[str, Any], observed: Children) -> None:
    plan = plan_pool(pool, observed)

    assert plan.status is not None
    [ready] = plan.status.conditions
    assert plan.status.phase in PoolPhase.values
    assert ready.reason in list(PoolReason)
    assert isinstance(ready.message, str)


@given(POOLS, OBSERVED)
def test_the_same_input_has_the_same_plan_and_is_not_changed(
    pool: dict[str, Any], observed: Children
) -> None:
    before = deepcopy((pool, observed))

    first, second = plan_pool(pool, observed), plan_pool(pool, observed)

    assert first == second
    assert (pool, observed) == before


@given(POOLS, OBSERVED)
def test_an_unknown_object_causes_no_action(pool: dict[str, Any], observed: Children) -> None:
    parts = (observed.deployment, observed.service, observed.pods)
    if any(isinstance(part, Unknown) for part in parts):
        assert not plan_pool(pool, observed).actions


@given(POOLS, OBSERVED)
def test_only_objects_of_the_pool_are_deleted(pool: dict[str, Any], observed: Children) -> None:
    deletes = [a for a in plan_pool(pool, observed).actions if isinstance(a, Delete)]

    for action in deletes:
        assert isinstance(observed.service, Present)
        metadata = observed.service.value["metadata"]
        assert action.uid == metadata["uid"]
        assert metadata["ownerReferences"][0]["uid"] == pool["metadata"]["uid"]


@given(st.lists(SOUND_SPECS, min_size=1, max_size=3), st.booleans())
@settings(max_examples=examples(1.2))
def test_repeated_runs_reach_a_fixed_point(
    specs: list[dict[str, Any]], is_meddled_with: bool
) -> None:
    cluster = FakeCluster()
    for spec in specs:
        cluster.put(STOCK_POOL, {**pool_resource(metadata={"resourceVersion": ""}), "spec": spec})
        _settle(cluster)
        if is_meddled_with:
            cluster.remove(DEPLOYMENT, "pool-h100", namespace="runtime-pools")
            _settle(cluster)

    cluster.writes.clear()
    for _ in range(3):
        _pass(cluster)

    assert cluster.writes == []
    replicas = specs[-1]["replicas"]
    found = cluster.get_pool("h100")
    assert found["status"]["phase"] == ("Ready" if replicas else "Empty")
    assert len(cluster.names(DEPLOYMENT)) == 1


def _settle(cluster: FakeCluster) -> None:
    for _ in range(ROUNDS):
        _pass(cluster)
        cluster.settle()


def _pass(cluster: FakeCluster) -> None:
    """Act as the driver, without a database."""
    pool = cluster.get_pool("h100")
    plan = plan_pool(pool, observe_pool(cluster, pool))
    for action in plan.actions:
        execute(cluster, action)
    assert plan.status is not None
    assert plan.status.phase in PLANNED
    [ready] = plan.status.conditions
    status = {"phase": plan.status.phase, **plan.status.fields, "reason": ready.reason}
    if {k: v for k, v in status.items() if v is not None} != pool.get("status"):
        cluster.merge_patch(
            STOCK_POOL, "h100", {"status": status}, namespace="runtime-pools", subresource="status"
        )


def test_the_deployment_of_an_unchanged_pool_stays_unchanged() -> None:
    pool = pool_resource()
    observed = Children(
        Present(live_deployment(pool, status=running(2))), Absent(), Present(()), POD_SETTINGS
    )

    assert not plan_pool(pool, observed).actions
