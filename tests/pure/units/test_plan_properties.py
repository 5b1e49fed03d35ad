"""Properties of `plan_unit` for arbitrary input, and of its reconciliation loop.

Units whose program may end are in `test_job_properties`.
"""

from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuplatform.kube.fields import field, number
from gpuplatform.kube.kinds import DEPLOYMENT, GPU_UNIT, SERVICE
from gpuplatform.planning.ownership import is_controlled_by
from gpuplatform.planning.plan import (
    Action,
    Create,
    Delete,
    Patch,
    Present,
    Unknown,
)
from gpuplatform.planning.view import ResourceView
from gpuplatform.workloads.pod_settings import PodSettings
from gpuplatform.workloads.pods import UNIT_PRIORITY_CLASS
from tests.factories.arbitrary import JUNK, examples, observation, owned_object
from tests.factories.inventory import HTTP_PORT, POD_SETTINGS
from tests.factories.planned_units import (
    stock_resource,
    unit_deployment,
    unit_pod,
    unit_resource,
    unit_service,
)
from tests.fakes.unit_loop import UnitLoop
from units.core.observed import ObservedUnit
from units.core.plan import plan_unit
from units.core.sources import NoSource, Source, SourceGone, SourceHeld, SourceLost, SourcePending
from units.core.statuses import OWNER
from units.phases import UnitPhase, UnitReason

SPECS = st.fixed_dictionaries(
    {"specName": st.sampled_from(["g1.1", "g2.1"]), "gpu": st.integers(0, 2)},
    optional={
        "image": st.sampled_from(["app:1", "app:2"]),
        "memory": st.sampled_from(["1Gi", "1024Mi"]),
        "suspend": st.booleans(),
        "placement": st.sampled_from(
            [{}, {"nodeSelector": {"a": "b"}}, {"tolerations": [{"operator": "Exists"}]}]
        ),
        "template": st.sampled_from([{}, {"ports": [HTTP_PORT]}, {"args": ["a"]}]),
    },
)
BROKEN = st.fixed_dictionaries(
    {"specName": st.just("g"), "access": st.just({"primaryPort": "x"})},
    optional={"memory": st.just("lots"), "suspend": st.booleans()},
)
SOURCES: st.SearchStrategy[Source] = st.one_of(
    st.just(NoSource()),
    st.just(SourcePending()),
    st.just(SourceHeld("its pods still run")),
    st.booleans().map(SourceGone),
    st.just(SourceLost()),
)


def _unit(base: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A unit with valid metadata, as from an API server, and arbitrary content."""
    return st.builds(
        lambda spec, status, annotations: {
            **base,
            "metadata": {**base["metadata"], "annotations": annotations},
            "spec": spec,
            "status": status,
        },
        SPECS | BROKEN | JUNK,
        JUNK,
        st.just(base["metadata"]["annotations"]) | JUNK,
    )


UNITS = _unit(unit_resource()) | _unit(stock_resource())


def deployments(base: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.just(base) | owned_object(base, JUNK | st.just(base["spec"]))


DEPLOYMENTS = st.one_of(
    *(
        deployments(unit_deployment(unit, replicas=replicas, priority=UNIT_PRIORITY_CLASS))
        for unit in (unit_resource(), stock_resource())
        for replicas in (0, 1)
    )
)
PODS = st.lists(
    st.builds(lambda s: {"metadata": {"name": "p"}, "status": s}, JUNK)
    | st.sampled_from([unit_pod(unit_resource(), phase=p) for p in ("Running", "Failed")]),
    max_size=3,
)
SERVICE_OF_UNIT = unit_service(unit_resource())
OBSERVED = st.builds(
    ObservedUnit,
    deployment=observation(DEPLOYMENTS),
    service=observation(st.just(SERVICE_OF_UNIT) | owned_object(SERVICE_OF_UNIT)),
    pods=observation(PODS),
    settings=st.sampled_from([POD_SETTINGS, PodSettings("reserve:2", "sidecar:2")]),
    source=SOURCES,
    is_start_void=st.booleans(),
    consumed_by=st.sampled_from(["", "", "a-unit"]),
)


def _replicas_written(action: Action) -> int:
    """Return the replicas that the action writes to a Deployment; 0 for other actions."""
    match action:
        case Create(_, manifest):
            return number(manifest, "spec", "replicas")
        case Patch(_, _, _, patch):
            return number(patch, "spec", "replicas")
        case _:
            return 0


@given(UNITS, OBSERVED)
@settings(max_examples=examples(3))
def test_every_input_has_a_plan(unit: dict[str, Any], observed: ObservedUnit) -> None:
    plan = plan_unit(unit, observed)

    if plan.status is None:
        is_start = any(isinstance(one, Create) for one in plan.actions)
        assert isinstance(plan.actions[-1], Delete) or (is_start and plan.requeue_after)
        return
    [ready] = plan.status.conditions
    assert plan.status.phase in UnitPhase.values
    assert ready.reason in list(UnitReason)
    assert isinstance(ready.message, str)


@given(UNITS, OBSERVED)
def test_the_same_input_has_the_same_plan_and_is_not_changed(
    unit: dict[str, Any], observed: ObservedUnit
) -> None:
    before = deepcopy((unit, observed))

    first, second = plan_unit(unit, observed), plan_unit(unit, observed)

    assert first == second
    assert (unit, observed) == before


@given(UNITS, OBSERVED)
def test_an_unknown_object_causes_no_deletion_and_no_start(
    unit: dict[str, Any], observed: ObservedUnit
) -> None:
    parts = (observed.deployment, observed.service, observed.pods)
    if not any(isinstance(part, Unknown) for part in parts):
        return

    for action in plan_unit(unit, observed).actions:
        if isinstance(action, Delete):  # Its row decides, not an observation.
            assert (action.kind, action.uid) == (GPU_UNIT, unit["metadata"]["uid"])
            assert observed.consumed_by
        else:
            assert action.kind is DEPLOYMENT
            assert _replicas_written(action) == 0


@given(UNITS, OBSERVED)
def test_only_objects_of_the_unit_are_changed(
    unit: dict[str, Any], observed: ObservedUnit
) -> None:
    for action in plan_unit(unit, observed).actions:
        part = observed.service if action.kind is SERVICE else observed.deployment
        if isinstance(part, Present) and action.kind is not GPU_UNIT:
            found = part.value
            assert is_controlled_by(found, unit["metadata"]["uid"]) or (
                OWNER.is_own_orphan(ResourceView.of(unit), action.kind, found)
                and isinstance(action, Patch)
                and action.patch.keys() == {"metadata"}
            )


@given(UNITS, OBSERVED)
def test_a_deployment_is_patched_with_the_version_that_was_read(
    unit: dict[str, Any], observed: ObservedUnit
) -> None:
    for action in plan_unit(unit, observed).actions:
        if action.kind is not DEPLOYMENT:
            continue
        match observed.deployment:
            case Present(live):
                assert isinstance(action, Patch)
                assert action.patch["metadata"]["uid"] == live["metadata"]["uid"]
                version = live["metadata"]["resourceVersion"]
                assert action.patch["metadata"]["resourceVersion"] == version
            case _:
                assert isinstance(action, Create)


@given(UNITS, OBSERVED)
@settings(max_examples=examples(3))
def test_no_unit_starts_next_to_its_source_or_while_suspended(
    unit: dict[str, Any], observed: ObservedUnit
) -> None:
    live = observed.deployment.value if isinstance(observed.deployment, Present) else {}
    is_running = number(live, "spec", "replicas") != 0
    starts = [a for a in plan_unit(unit, observed).actions if _replicas_written(a) > 0]

    if observed.is_start_void or field(unit, "spec", "suspend") is True:
        assert not starts
    if not is_running and isinstance(observed.source, SourcePending | SourceHeld):
        assert not starts


@given(
    st.lists(SPECS, min_size=1, max_size=3),
    st.booleans(),
    st.sampled_from([unit_resource(), stock_resource()]),
)
@settings(max_examples=examples(0.8))
def test_repeated_runs_reach_a_fixed_point(
    specs: list[dict[str, Any]], is_meddled_with: bool, base: dict[str, Any]
) -> None:
    world = UnitLoop(base)
    for spec in specs:
        world.want(spec)
        world.settle()
        if is_meddled_with:
            world.remove(DEPLOYMENT)
            world.settle()

    world.cluster.writes.clear()
    for _ in range(3):
        world.once()

    assert world.cluster.writes == []
    is_suspended = specs[-1].get("suspend", False)
    assert world.unit()["status"]["phase"] == ("Stopped" if is_suspended else "Ready")
    assert len(world.cluster.names(DEPLOYMENT)) == 1
    [found] = world.cluster.list(DEPLOYMENT).items
    pod = found["spec"]["template"]["spec"]
    placement = specs[-1].get("placement", {})
    assert {key: pod[key] for key in ("nodeSelector", "tolerations") if key in pod} == placement


def test_a_hand_over_ends_with_a_running_unit_and_no_more_writes() -> None:
    world = UnitLoop(unit_resource())
    world.want(unit_resource()["spec"])
    for source in (SourcePending(), SourceHeld("its pods still run")):
        world.source = source
        world.settle()
        assert world.cluster.names(DEPLOYMENT) == []

    world.source = SourceGone(may_preempt=True)
    world.settle()
    world.source = SourceLost()  # Its row is deleted after 30 days.
    world.cluster.writes.clear()
    world.settle()

    assert world.cluster.writes == []
    assert world.unit()["status"]["phase"] == "Ready"
