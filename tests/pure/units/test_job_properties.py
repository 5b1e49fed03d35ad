"""Properties of `plan_unit` for a unit whose program may end, and of its reconciliation loop."""

from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuplatform.kube.fields import field, number
from gpuplatform.kube.kinds import DEPLOYMENT, JOB, Manifest
from gpuplatform.planning.ownership import is_controlled_by
from gpuplatform.planning.plan import Absent, Action, Create, Delete, Patch, Present, Unknown
from gpuplatform.planning.view import ResourceView
from tests.factories.arbitrary import JUNK, examples, observation
from tests.factories.ending_units import (
    COMPLETE,
    FAILED,
    FINISHED_AT,
    GONE,
    SUSPENDED,
    ended_pod,
    ending_unit,
    job_pod,
    observed_job,
    unit_job,
)
from tests.factories.inventory import POD_SETTINGS
from tests.factories.planned_units import SOURCE, unit_deployment, unit_pod
from tests.fakes.unit_loop import UnitLoop
from units.core.child import is_suspended, kind_of, outcome
from units.core.endings import has_ended
from units.core.jobs import run_of
from units.core.names import GENERATION_ANNOTATION, RUN_ANNOTATION
from units.core.observed import ObservedUnit
from units.core.plan import plan_unit
from units.core.sources import SourceHeld, SourcePending, SourceReference
from units.phases import UnitPhase, UnitReason

OTHER = SourceReference("stock-other-001", "66666666-2222-4333-8444-555555555555")
IMAGES = st.sampled_from(["app:1", "app:2"])
MAY_END = st.sampled_from(["never", "onFailure"])
RESTARTS = MAY_END | st.just("always")
ENDS = st.sampled_from([COMPLETE, FAILED])
STATES = ENDS | st.sampled_from(
    [
        *({}, SUSPENDED, {"active": 1}),
        {"conditions": [{"type": "SuccessCriteriaMet", "status": "True"}]},
        {"conditions": [{"type": "FailureTarget", "status": "True"}]},
    ]
)


def _status(run: str, code: int) -> Manifest:
    """Return the status of a unit whose program has ended."""
    reason = UnitReason.PROGRAM_FAILED if code else UnitReason.PROGRAM_SUCCEEDED
    ready = {"type": "Ready", "reason": str(reason), "message": "It ended."}
    end = {"exitCode": code, "finishedAt": FINISHED_AT, "finishedRun": run}
    return {"phase": "Failed" if code else "Succeeded", "conditions": [ready], **end}


RECORDED = st.builds(_status, st.sampled_from([SOURCE.uid, OTHER.uid]), st.integers(0, 1))
UNIT = ending_unit()


def _units(suspend: st.SearchStrategy[bool]) -> st.SearchStrategy[Manifest]:
    return st.builds(
        lambda restart, image, suspend, generation, annotations, status: ending_unit(
            restart,
            metadata={"generation": generation, "annotations": annotations},
            status=status,
            image=image,
            suspend=suspend,
        ),
        RESTARTS,
        IMAGES,
        suspend,
        st.integers(1, 2),
        st.sampled_from([SOURCE.annotations(), SOURCE.annotations(), OTHER.annotations(), {}]),
        st.none() | RECORDED | st.dictionaries(st.sampled_from(["phase", "finishedRun"]), JUNK),
    )


def _job(
    restart: str,
    image: str,
    state: Manifest,
    marks: Manifest,
    is_own: bool,
    **content: Any,
) -> Manifest:
    made = unit_job(ending_unit(restart, image=image), status=state)
    owners = made["metadata"]["ownerReferences"] if is_own else []
    metadata = {**made["metadata"], "ownerReferences": owners}
    metadata["annotations"] = {**metadata["annotations"], **marks}
    return {**made, "metadata": metadata, "spec": {**made["spec"], **content}}


JOBS = st.builds(
    _job,
    restart=MAY_END,
    image=IMAGES,
    state=STATES | JUNK.map(lambda conditions: {"conditions": conditions}),
    marks=st.fixed_dictionaries(
        {
            RUN_ANNOTATION: st.sampled_from([SOURCE.uid, SOURCE.uid, OTHER.uid]) | JUNK,
            GENERATION_ANNOTATION: st.sampled_from(["1", "2", "3"]) | JUNK,
        }
    ),
    is_own=st.sampled_from([True, True, True, False]),
    suspend=st.booleans() | JUNK,
    parallelism=st.integers(0, 2),
)
DEPLOYMENTS = st.sampled_from(
    [
        unit_deployment(ending_unit(metadata={"generation": generation}), replicas=replicas)
        for replicas in (0, 0, 1)
        for generation in (1, 2)
    ]
)
PODS = st.sampled_from(
    [
        [],
        [unit_pod(UNIT, phase="Running")],
        [job_pod(UNIT, phase="Running", conditions=[{"type": "Ready", "status": "True"}])],
        [ended_pod(UNIT, 0)],
        [ended_pod(UNIT, 3), job_pod(UNIT, name="b", phase="Pending")],
    ]
)
OBSERVED = st.builds(
    ObservedUnit,
    deployment=observation(DEPLOYMENTS),
    service=st.sampled_from([Absent(), Absent(), Unknown("forbidden")]),
    pods=observation(PODS),
    job=observation(JOBS) | JOBS.map(Present),
    kind=st.just(JOB),
    settings=st.just(POD_SETTINGS),
    source=st.sampled_from([GONE, GONE, SourcePending(), SourceHeld("its pods still run")]),
    is_outdated=st.sampled_from([False, False, False, True]),
    is_start_void=st.sampled_from([False, False, False, True]),
)
CASES = st.tuples(_units(st.booleans()), OBSERVED)
Case = tuple[Manifest, ObservedUnit]


def starts(action: Action) -> bool:
    """Return whether the cluster runs a pod because of the action."""
    match action:
        case Create(kind, manifest) if kind == DEPLOYMENT:
            return number(manifest, "spec", "replicas") > 0
        case Create(kind, manifest) if kind == JOB:
            return not is_suspended(manifest)
        case Patch(kind, _, _, patch) if kind == DEPLOYMENT:
            return number(patch, "spec", "replicas") > 0
        case Patch(kind, _, _, patch) if kind == JOB:
            return field(patch, "spec", "suspend") is False
        case _:
            return False


@given(CASES)
@settings(max_examples=examples(3))
def test_every_input_has_one_plan(case: Case) -> None:
    before = deepcopy(case)

    plan = plan_unit(*case)

    assert plan == plan_unit(*case)
    assert case == before
    if plan.status is None:
        assert plan.requeue_after is not None
        return
    [ready] = plan.status.conditions
    assert plan.status.phase in UnitPhase.values
    assert ready.reason in list(UnitReason)
    code = plan.status.fields.get("exitCode")
    assert code is None or isinstance(code, int)
    if plan.status.phase == UnitPhase.SUCCEEDED:
        assert ready.reason == UnitReason.PROGRAM_SUCCEEDED
        assert not any(action.kind in {DEPLOYMENT, JOB} for action in plan.actions)


@given(CASES)
@settings(max_examples=examples(2))
def test_a_job_is_changed_only_as_it_was_read(case: Case) -> None:
    unit, observed = case

    for action in plan_unit(unit, observed).actions:
        if action.kind != JOB:
            continue
        if isinstance(action, Create):
            assert not isinstance(observed.job, Present | Unknown)
            continue
        live = observed.live(JOB)
        assert is_controlled_by(live, unit["metadata"]["uid"]) or (
            isinstance(action, Patch) and action.patch.keys() == {"metadata"}
        )
        read = {key: live["metadata"][key] for key in ("uid", "resourceVersion")}
        if isinstance(action, Patch):
            assert {key: action.patch["metadata"][key] for key in read} == read
            assert field(action.patch, "spec", "template") is None
        else:
            assert isinstance(action, Delete)
            assert {"uid": action.uid, "resourceVersion": action.resource_version} == read


@given(CASES)
@settings(max_examples=examples(3))
def test_at_most_one_pod_is_started_and_none_next_to_another(case: Case) -> None:
    unit, observed = case
    actions = plan_unit(unit, observed).actions
    started = [action for action in actions if starts(action)]
    uid = unit["metadata"]["uid"]
    parts = (observed.deployment, observed.service, observed.pods, observed.job)

    if any(isinstance(part, Unknown) for part in parts):
        assert not started
        is_stopped = unit["spec"]["suspend"] or observed.is_start_void
        assert is_stopped or not any(isinstance(action, Delete) for action in actions)
    if observed.is_outdated:
        assert not actions
    if not started:
        return
    assert not observed.is_start_void
    assert unit["spec"]["suspend"] is False
    assert [action.kind for action in started] == [kind_of(unit)]
    if kind_of(unit) == DEPLOYMENT:
        assert not is_controlled_by(observed.live(JOB), uid)
    else:
        job = observed.live(JOB)
        assert outcome(job) is None
        assert number(observed.live_deployment, "spec", "replicas") == 0
        if is_suspended(job):
            assert observed.source == GONE
            assert not observed.has_gpu(ResourceView.of(unit))


@given(_units(st.just(False)), MAY_END, IMAGES, ENDS, observation(DEPLOYMENTS), PODS)
@settings(max_examples=examples(2))
def test_a_program_that_has_ended_does_not_run_again(
    unit: Manifest, restart: str, image: str, end: Manifest, deployment: Any, pods: list[Manifest]
) -> None:
    run = run_of(ResourceView.of(unit)) or SOURCE.uid
    job = unit_job(ending_unit(restart, image=image), status=end, run=run)
    observed = observed_job(job, *pods, deployment=deployment, kind=kind_of(unit))
    assert has_ended(ResourceView.of(unit), observed.job)

    plan = plan_unit(unit, observed)

    assert not plan.actions
    assert plan.status is not None
    [ready] = plan.status.conditions
    if isinstance(deployment, Unknown):
        assert ready.reason == UnitReason.UNIT_DEPLOYMENT_SYNC_FAILED
        return
    phase, reason = UnitPhase.SUCCEEDED, UnitReason.PROGRAM_SUCCEEDED
    if end is FAILED:
        phase, reason = UnitPhase.FAILED, UnitReason.PROGRAM_FAILED
    if observed.has_gpu(ResourceView.of(unit)):
        phase = UnitPhase.PROGRESSING
    assert (plan.status.phase, ready.reason) == (phase, reason)
    current = run_of(ResourceView.of(unit))
    assert not current or plan.status.fields["finishedRun"] == current


class Life:
    """A unit that changes: what it must be is derived from the changes alone."""

    def __init__(self) -> None:
        self.loop = UnitLoop(UNIT)
        self.loop.source = GONE
        self.spec = UNIT["spec"]
        self.starts = 0
        self.is_stopped = False
        self.code: int | None = None
        """The exit code of the current run, if the program has ended."""

    def change(self, what: str, template: Manifest, code: int) -> None:
        """Apply one change."""
        is_idle = self.is_stopped or self.code is not None
        if what == "edit":
            self.spec = {**self.spec, **template}
        elif what == "stop":
            self.is_stopped, self.code = True, None
        elif what == "start" and is_idle:
            self.starts += 1
            self.is_stopped, self.code = False, None
        elif what == "resume":
            self.is_stopped = False
        elif what == "end" and not is_idle and self.loop.child(JOB) is not None:
            self.code = code
            self.loop.end(code)
        elif what in CHILDREN:
            self.loop.remove(CHILDREN[what])
        source = SourceReference("stock-001", f"run-{self.starts}")
        spec = {**self.spec, "suspend": self.is_stopped}
        self.loop.want(spec, annotations=source.annotations())
        self.loop.settle()

    def expected(self) -> tuple[str, str, int | None]:
        """Return the phase, the reason and the exit code of the settled unit."""
        if self.is_stopped:
            return UnitPhase.STOPPED, UnitReason.STOPPED, None
        if self.code is None:
            return UnitPhase.READY, UnitReason.UNIT_READY, None
        if self.code:
            return UnitPhase.FAILED, UnitReason.PROGRAM_FAILED, self.code
        return UnitPhase.SUCCEEDED, UnitReason.PROGRAM_SUCCEEDED, 0

    def reported(self) -> tuple[str, str, int | None]:
        """Return the same from the status."""
        status = self.loop.unit()["status"]
        return status["phase"], status["conditions"][0]["reason"], status.get("exitCode")


CHILDREN = {"delete job": JOB, "delete deployment": DEPLOYMENT}
CHANGES = st.tuples(
    st.sampled_from(["edit", "end", "end", "stop", "start", "resume", *CHILDREN]),
    st.builds(
        lambda restart, image: {"template": {"restart": restart}, "image": image},
        RESTARTS,
        IMAGES,
    ),
    st.sampled_from([0, 3]),
)


@given(st.lists(CHANGES, min_size=1, max_size=5))
def test_every_history_settles_in_the_phase_of_its_last_run(
    changes: list[tuple[str, Manifest, int]],
) -> None:
    life = Life()
    life.change("edit", {"image": "app:1"}, 0)
    assert life.reported() == (UnitPhase.READY, UnitReason.UNIT_READY, None)

    for change in changes:
        life.change(*change)

        assert life.reported() == life.expected()
    life.loop.cluster.writes.clear()
    for _ in range(2):
        life.loop.once()
    assert life.loop.cluster.writes == []
