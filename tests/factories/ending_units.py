"""GPU units whose program may end, and their Jobs and pods, for the planner. Pure."""

from collections.abc import Mapping
from typing import Any

from gpuplatform.kube.kinds import JOB, Manifest
from gpuplatform.planning.plan import Absent, Observation, Present
from gpuplatform.workloads.pods import CONTAINER_NAME, UNIT_PRIORITY_CLASS
from tests.factories.inventory import POD_SETTINGS, live, pod
from tests.factories.planned_units import SOURCE, observed_unit, unit_resource
from units.core import manifests
from units.core.names import GENERATION_ANNOTATION, RUN_ANNOTATION, UNIT_UID_LABEL
from units.core.observed import ObservedUnit
from units.core.sources import SourceGone
from units.core.view import UnitView

FINISHED_AT = "2026-01-31T13:00:00Z"
JOB_UID = "88888888-2222-4333-8444-555555555555"
COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}
FAILED = {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}
SUSPENDED = {"conditions": [{"type": "Suspended", "status": "True"}]}
GONE = SourceGone(may_preempt=True)


def ending_unit(
    restart: str = "never",
    *,
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Manifest:
    """Return an active unit without ports whose program may end."""
    template = {"restart": restart, **spec.pop("template", {})}
    return unit_resource(metadata=metadata, status=status, template=template, **spec)


def unit_job(
    unit: Manifest,
    *,
    suspend: bool = False,
    run: str | None = SOURCE.uid,
    generation: int | None = None,
    priority: str = UNIT_PRIORITY_CLASS,
    status: Mapping[str, Any] | None = None,
) -> Manifest:
    """Return the Job that `unit` wants, as read back; written for its generation."""
    wanted = manifests.job(UnitView.parse(unit), priority=priority, settings=POD_SETTINGS)
    written = unit["metadata"]["generation"] if generation is None else generation
    marks = {GENERATION_ANNOTATION: str(written), **({RUN_ANNOTATION: run} if run else {})}
    wanted["metadata"]["annotations"] |= marks
    wanted["spec"]["suspend"] = suspend
    found = live(wanted, status=status)
    found["metadata"]["uid"] = JOB_UID
    return found


def job_pod(unit: Manifest, *, name: str = "unit-trainer-x", **status: Any) -> Manifest:
    """Return a pod of the Job of that unit."""
    found = pod(name, **status)
    found["metadata"] |= {
        "labels": {UNIT_UID_LABEL: unit["metadata"]["uid"]},
        "ownerReferences": [{"kind": "Job", "uid": JOB_UID, "controller": True}],
    }
    return found


def ended_pod(unit: Manifest, code: int, **terminated: Any) -> Manifest:
    """Return the pod of a program that ended with that exit code."""
    state = {"exitCode": code, "finishedAt": FINISHED_AT, **terminated}
    return job_pod(
        unit,
        phase="Succeeded" if code == 0 else "Failed",
        containerStatuses=[{"name": CONTAINER_NAME, "state": {"terminated": state}}],
    )


def observed_job(
    job: Observation[Manifest] | Manifest = Absent(),  # noqa: B008 - the default is immutable
    *pods: Manifest,
    **more: Any,
) -> ObservedUnit:
    """Return what was observed of a unit whose source is gone; a dict is a Job that exists."""
    found = Present(job) if isinstance(job, dict) else job
    return observed_unit(**{"job": found, "kind": JOB, "source": GONE, "pods": list(pods), **more})
