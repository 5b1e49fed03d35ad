"""The section of a page with live data of a resource from the cluster.

`ClusterSectionAdmin` serves the section and `admin/cluster.html` renders it. All text is
untrusted: this module escapes control characters and limits lengths; the template escapes HTML.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.utils.safestring import SafeString

from gpuplatform.adminkit.detail.panels import RelatedRow
from gpuplatform.adminkit.detail.pods import pod_steps, waiting_reason
from gpuplatform.adminkit.detail.sizes import ActualSizes, actual_sizes
from gpuplatform.adminkit.display.age import timestamp_age_html
from gpuplatform.adminkit.display.badges import Shape, shape_badge
from gpuplatform.adminkit.display.causes import reason_title_html
from gpuplatform.adminkit.display.text import as_yaml, counted, shortened, visible
from gpuplatform.adminkit.display.timeline import TimelineLine, timeline
from gpuplatform.kube.fields import condition, field, items, number
from gpuplatform.kube.kinds import Manifest
from gpuplatform.reconciliation.inspection import Inspection, ObjectEvent, is_ready

MAX_LOG_CHARACTERS = 32_768
MAX_TIMELINES = 3
"""Maximum number of pods with a timeline; pods that are not ready come first."""


@dataclass(frozen=True, slots=True)
class PodTimeline:
    """The timeline of the start of a pod."""

    name: str
    lines: Sequence[TimelineLine]


@dataclass(frozen=True, slots=True)
class ClusterSection:
    """The owned objects, pod timelines, Events, log and YAML of a resource."""

    about: str
    objects: Sequence[RelatedRow]
    sizes: ActualSizes | None
    """The desired and the actual image and sizes."""
    pods: Sequence[PodTimeline]
    events: Sequence[RelatedRow]
    log: str
    log_of: str
    resource: str
    errors: Sequence[str]
    """The errors of the requests to the cluster."""

    @property
    def is_unreadable(self) -> bool:
        """Whether every request failed, so that only the errors are displayed."""
        return bool(self.errors) and not (self.resource or self.objects or self.events)


def cluster_section(found: Inspection, about: str) -> ClusterSection:
    """Return the section for the result of an inspection; `about` names the resource."""
    return ClusterSection(
        about=visible(about),
        objects=list(_objects(found)),
        sizes=actual_sizes(found),
        pods=[_timeline(pod, found.events) for pod in found.pods[:MAX_TIMELINES]],
        events=[_event(event) for event in found.events],
        log=visible(found.log[-MAX_LOG_CHARACTERS:]),
        log_of=visible(found.log_of),
        resource=visible(as_yaml(found.resource)) if found.resource else "",
        errors=[shortened(error, 300) for error in found.faults],
    )


def _timeline(pod: Manifest, events: Sequence[ObjectEvent]) -> PodTimeline:
    name = str(field(pod, "metadata", "name") or "")
    return PodTimeline(visible(name), timeline(pod_steps(pod, events)))


def _objects(found: Inspection) -> Iterator[RelatedRow]:
    if found.deployment is not None:
        yield _deployment(found.deployment)
    if found.job is not None:
        yield _job(found.job)
    for one in found.replica_sets:
        failure = condition(one, "ReplicaFailure")
        if failure.get("status") == "True":
            text = str(failure.get("message", ""))
            yield _line(one, "ReplicaSet", Shape.FAILED, shortened(text, 400))
    for pod in found.pods:
        yield _pod(pod)
    if found.service is not None:
        yield _service(found.service)


def _deployment(one: Manifest) -> RelatedRow:
    desired, ready = number(one, "spec", "replicas"), number(one, "status", "availableReplicas")
    shape = Shape.READY if ready >= desired else Shape.PROGRESS
    if not desired:
        shape = Shape.OFF
    progress = condition(one, "Progressing")
    text = f"{ready} of {desired} available"
    if progress.get("status") == "False":
        shape = Shape.FAILED
        text += f" · {progress.get('message', '')}"
    return _line(one, "Deployment", shape, shortened(text, 400))


def _job(one: Manifest) -> RelatedRow:
    for type_, shape in (("Failed", Shape.FAILED), ("Complete", Shape.READY)):
        found = condition(one, type_)
        if found.get("status") == "True":
            text = f"{type_} · {found.get('message') or found.get('reason') or ''}"
            return _line(one, "Job", shape, shortened(text, 400))
    if field(one, "spec", "suspend"):
        return _line(one, "Job", Shape.OFF, "suspended")
    return _line(one, "Job", Shape.PROGRESS, f"{number(one, 'status', 'active')} active")


def _service(one: Manifest) -> RelatedRow:
    ports = ", ".join(str(field(port, "port")) for port in items(one, "spec", "ports"))
    address = field(one, "spec", "clusterIP") or "no address yet"
    return _line(one, "Service", Shape.READY, shortened(f"{address}, port {ports}"))


def _pod(pod: Manifest) -> RelatedRow:
    if is_ready(pod):
        shape = Shape.READY
    elif _is_stuck(pod):
        shape = Shape.FAILED
    else:
        shape = Shape.PROGRESS
    return _line(pod, "Pod", shape, shortened(" · ".join(_pod_status(pod)), 260))


def _pod_status(pod: Manifest) -> Iterator[str]:
    """Yield the phase of a pod, what prevents its start, its node and its restarts."""
    if field(pod, "metadata", "deletionTimestamp"):
        yield "Terminating"
    yield str(field(pod, "status", "phase") or "Unknown")
    unscheduled = condition(pod, "PodScheduled")
    if unscheduled.get("status") == "False":
        yield f"{unscheduled.get('reason', '')}: {unscheduled.get('message', '')}"
    for status in items(pod, "status", "containerStatuses"):
        for state in ("waiting", "terminated"):
            details = field(status, "state", state)
            if details is not None:
                yield _container_status(details)
    if node := field(pod, "spec", "nodeName"):
        yield f"on {node}"
    statuses = items(pod, "status", "containerStatuses")
    if restarts := sum(number(one, "restartCount") for one in statuses):
        yield counted(restarts, "restart")


def _container_status(details: Manifest) -> str:
    parts = [str(field(details, "reason") or ""), str(field(details, "message") or "")]
    if (code := number(details, "exitCode")) != 0:
        parts.append(f"exit code {code}")
    return ": ".join(part for part in parts if part) or "Waiting"


def _is_stuck(pod: Manifest) -> bool:
    """Return whether the pod cannot start without an intervention."""
    if field(pod, "status", "phase") == "Failed":
        return True
    if condition(pod, "PodScheduled").get("status") == "False":
        return True
    return any(map(waiting_reason, items(pod, "status", "containerStatuses")))


def _event(event: ObjectEvent) -> RelatedRow:
    shape = Shape.WAITING if event.type == "Warning" else Shape.OFF
    times = f", {event.count} times" if event.count > 1 else ""
    about = f"{event.object_kind} {event.object_name}{times}"
    return RelatedRow(
        badge=shape_badge(shape, reason_title_html(event.reason)),
        name=shortened(about, 120),
        url="",
        text=shortened(event.message, 400),
        since=timestamp_age_html(event.last_seen),
    )


def _line(one: Manifest, kind: str, shape: Shape, text: str) -> RelatedRow:
    return RelatedRow(
        badge=shape_badge(shape, kind),
        name=visible(str(field(one, "metadata", "name") or "")),
        url="",
        text=text,
        since=SafeString(timestamp_age_html(field(one, "metadata", "creationTimestamp"))),
    )
