"""Decides what to write to the Job of a unit whose program may end. Pure.

A Job is created suspended, and a start is a patch with the resource version that was read, so that
neither a late creation nor a late start of an earlier decision runs the program (rule `rvdep` of
the hand-over). A stop changes the annotation with the generation even if the Job is suspended
(rule `stamp`).

A Job is deleted and created again if its pod template, which is immutable, or its run changes. The
new Job contains no earlier decisions. Therefore, the unit is read again after its Job, and a
decision that is based on an older unit is discarded (`ObservedUnit.is_outdated`).

A run begins with each start. The source of the unit identifies it, because each start claims
another stock unit. A finished Job of the current run is replaced only if the unit is stopped.
"""

from typing import Final

from gpuplatform.kube.fields import field
from gpuplatform.kube.kinds import JOB, Manifest
from gpuplatform.planning.comparison import contains
from gpuplatform.planning.ownership import deletion_of, is_controlled_by, patch_of
from gpuplatform.planning.plan import Absent, Action, Create, Present
from gpuplatform.planning.view import ResourceView
from gpuplatform.workloads.releases import SPEC_HASH_ANNOTATION, keeps_its_template
from units.core import manifests
from units.core.child import (
    decided_priority,
    is_at_rest,
    is_suspended,
    outcome,
    stamp,
    wants_pod,
    written_for,
)
from units.core.names import RUN_ANNOTATION
from units.core.observed import ObservedUnit
from units.core.priority import priority_of
from units.core.sources import source_in
from units.core.view import UnitView

_AFFINITY: Final = ("spec", "template", "spec", "affinity")
_TIME_TO_LIVE: Final = "ttlSecondsAfterFinished"


def run_of(unit: ResourceView) -> str:
    """Return the identifier of the current run: the UID of the source, or an empty string."""
    source = source_in(unit.annotations)
    return source.uid if source else ""


def is_of_run(job: Manifest, unit: ResourceView) -> bool:
    """Return whether a Job was started for the current run of the unit.

    A unit that has lost the annotations of its source does not run again.
    """
    run = run_of(unit)
    return not run or field(job, "metadata", "annotations", RUN_ANNOTATION) == run


def job_actions(unit: UnitView, observed: ObservedUnit, *, runs: bool) -> list[Action]:
    """Return the actions that apply the spec to the Job, unless its state is unknown.

    The caller has to check that the program has not ended in the current run.
    """
    priority = priority_of(unit, observed, JOB, runs=runs)
    wanted = manifests.job(unit, priority=priority, settings=observed.settings)
    match observed.job:
        case Absent():
            wanted["metadata"]["annotations"] |= stamp(unit)
            return [Create(JOB, wanted)]
        case Present(live) if is_controlled_by(live, unit.uid):
            return _changed(unit, live, wanted, runs=runs)
        case _:
            return []


def _changed(unit: UnitView, live: Manifest, wanted: Manifest, *, runs: bool) -> list[Action]:
    is_deleting = bool(field(live, "metadata", "deletionTimestamp"))
    if is_deleting or written_for(live) > unit.generation:
        return []
    if outcome(live) is not None or (runs and _is_replaced(live, wanted)):
        return [deletion_of(JOB, live, is_unchanged=True)]
    is_start = runs and is_suspended(live)
    is_stamped = runs or is_at_rest(unit, JOB, live)
    part = _part(live, wanted, runs=runs)
    if not is_start and is_stamped and contains(live, part) and not _expires(live):
        return []
    run = {RUN_ANNOTATION: run_of(unit)} if is_start else {}
    annotations = {**part["metadata"]["annotations"], **stamp(unit), **run}
    patch = {
        "metadata": {**part["metadata"], "annotations": annotations},
        "spec": {**part["spec"], **({_TIME_TO_LIVE: None} if _expires(live) else {})},
    }
    return [patch_of(JOB, live, patch)]


def _part(live: Manifest, wanted: Manifest, *, runs: bool) -> Manifest:
    """Return the mutable part of `wanted`.

    The annotations describe the template of the Job, so that they are only restored.
    """
    metadata = wanted["metadata"]
    annotations = {} if _has_version(live) else metadata["annotations"]
    return {
        "metadata": {"labels": metadata["labels"], "annotations": annotations},
        "spec": {"suspend": not runs, "parallelism": wanted["spec"]["parallelism"]},
    }


def _is_replaced(live: Manifest, wanted: Manifest) -> bool:
    """Return whether the Job needs another pod template.

    A template that another release created is kept. A Job that does not run needs the template
    with the priority class and the affinity of its start.
    """
    if not wants_pod(JOB, live):
        affinity = field(wanted, *_AFFINITY)
        if affinity and not contains(field(live, *_AFFINITY), affinity):
            return True
        if decided_priority(live) != decided_priority(wanted):
            return True
    if not _has_version(live):
        return not contains(field(live, "spec", "template"), wanted["spec"]["template"])
    annotations = wanted["metadata"]["annotations"]
    is_same = contains(field(live, "metadata", "annotations"), annotations)
    return not is_same and not keeps_its_template(live, wanted)


def _has_version(live: Manifest) -> bool:
    return isinstance(field(live, "metadata", "annotations", SPEC_HASH_ANNOTATION), str)


def _expires(live: Manifest) -> bool:
    """Return whether another program set the time after which the finished Job is deleted.

    The Job is the record that the program has ended.
    """
    return field(live, "spec", _TIME_TO_LIVE) is not None
