"""What the cluster says of one object, as a part of its page that is asked for after the page.

`InspectedAdmin` serves it; `admin/cluster.html` draws it. Everything in it was written by others:
it is made visible and cut here, and escaped by the template.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.utils.safestring import SafeString

from gpuplatform.adminkit.detail.panels import RelatedRow
from gpuplatform.adminkit.detail.pods import pod_steps, waiting_reason
from gpuplatform.adminkit.detail.sizes import Running, running
from gpuplatform.adminkit.display.age import timestamp_age_html
from gpuplatform.adminkit.display.badges import Shape, shape_badge
from gpuplatform.adminkit.display.causes import reason_word
from gpuplatform.adminkit.display.text import as_yaml, shortened, visible
from gpuplatform.adminkit.display.timeline import TimelineLine, timeline
from gpuplatform.kube.fields import condition, field, items, number
from gpuplatform.kube.kinds import Manifest
from gpuplatform.reconciliation.inspection import Inspection, ObjectEvent, is_ready

LOG_CHARACTERS = 32_768
MOST_TIMELINES = 3
"""Pods whose way is shown; those that are not ready come first."""


@dataclass(frozen=True, slots=True)
class PodTimeline:
    """How a pod came up."""

    name: str
    lines: Sequence[TimelineLine]


@dataclass(frozen=True, slots=True)
class ClusterSection:
    """The owned objects, how their pods came up, Events, a log and the resource, to be drawn."""

    about: str
    objects: Sequence[RelatedRow]
    running: Running | None
    """Image and size of what runs beside what is wanted."""
    pods: Sequence[PodTimeline]
    events: Sequence[RelatedRow]
    log: str
    log_of: str
    resource: str
    faults: Sequence[str]

    @property
    def is_silent(self) -> bool:
        """Whether nothing at all could be read, so that only the faults are to be shown."""
        return bool(self.faults) and not (self.resource or self.objects or self.events)


def cluster_section(found: Inspection, about: str) -> ClusterSection:
    """Return what was found about an object as the page shows it."""
    return ClusterSection(
        about=visible(about),
        objects=list(_objects(found)),
        running=running(found),
        pods=[_timeline(pod, found.events) for pod in found.pods[:MOST_TIMELINES]],
        events=[_event(event) for event in found.events],
        log=visible(found.log[-LOG_CHARACTERS:]),
        log_of=visible(found.log_of),
        resource=visible(as_yaml(found.resource)) if found.resource else "",
        faults=[shortened(fault, 300) for fault in found.faults],
    )


def _timeline(pod: Manifest, events: Sequence[ObjectEvent]) -> PodTimeline:
    name = str(field(pod, "metadata", "name") or "")
    return PodTimeline(visible(name), timeline(pod_steps(pod, events)))


def _objects(found: Inspection) -> Iterator[RelatedRow]:
    if found.deployment is not None:
        yield _deployment(found.deployment)
    for one in found.replica_sets:
        said = condition(one, "ReplicaFailure")
        if said.get("status") == "True":
            text = str(said.get("message", ""))
            yield _line(one, "ReplicaSet", Shape.FAILED, shortened(text, 400))
    for pod in found.pods:
        yield _pod(pod)
    if found.service is not None:
        yield _service(found.service)


def _deployment(one: Manifest) -> RelatedRow:
    wanted, ready = number(one, "spec", "replicas"), number(one, "status", "availableReplicas")
    shape = Shape.READY if ready >= wanted else Shape.PROGRESS
    if not wanted:
        shape = Shape.OFF
    stuck = condition(one, "Progressing")
    text = f"{ready} of {wanted} available"
    if stuck.get("status") == "False":
        shape = Shape.FAILED
        text += f" · {stuck.get('message', '')}"
    return _line(one, "Deployment", shape, shortened(text, 400))


def _service(one: Manifest) -> RelatedRow:
    ports = ", ".join(str(field(port, "port")) for port in items(one, "spec", "ports"))
    address = field(one, "spec", "clusterIP") or "no address yet"
    return _line(one, "Service", Shape.READY, shortened(f"{address}, port {ports}"))


def _pod(pod: Manifest) -> RelatedRow:
    said = list(_pod_words(pod))
    if is_ready(pod):
        shape = Shape.READY
    elif _is_stuck(pod):
        shape = Shape.FAILED
    else:
        shape = Shape.PROGRESS
    return _line(pod, "Pod", shape, shortened(" · ".join(said), 260))


def _pod_words(pod: Manifest) -> Iterator[str]:
    """Yield its phase, why it is not further, its node and its restarts."""
    if field(pod, "metadata", "deletionTimestamp"):
        yield "ending"
    yield str(field(pod, "status", "phase") or "Unknown")
    unscheduled = condition(pod, "PodScheduled")
    if unscheduled.get("status") == "False":
        yield f"{unscheduled.get('reason', '')}: {unscheduled.get('message', '')}"
    for status in items(pod, "status", "containerStatuses"):
        for state in ("waiting", "terminated"):
            held = field(status, "state", state)
            if held is not None:
                yield _container_words(held)
    if node := field(pod, "spec", "nodeName"):
        yield f"on {node}"
    statuses = items(pod, "status", "containerStatuses")
    if restarts := sum(number(one, "restartCount") for one in statuses):
        yield f"{restarts} restarts"


def _container_words(held: Manifest) -> str:
    parts = [str(field(held, "reason") or ""), str(field(held, "message") or "")]
    if (code := number(held, "exitCode")) != 0:
        parts.append(f"exit code {code}")
    return ": ".join(part for part in parts if part) or "waiting"


def _is_stuck(pod: Manifest) -> bool:
    """Say whether something is in the way, beside that it takes its time."""
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
        badge=shape_badge(shape, reason_word(event.reason)),
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
