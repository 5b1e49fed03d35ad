"""The steps of the start of a pod: created, scheduled, image pull, started, ready.

They are derived from the status of the pod and its Events. The last step of a pod that is not
ready has no time; its text names what prevents it.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from gpuplatform.adminkit.display.badges import Shape
from gpuplatform.adminkit.display.text import counted, shortened
from gpuplatform.adminkit.display.timeline import Step
from gpuplatform.clock import parse_rfc3339
from gpuplatform.kube.fields import condition, field, items, number
from gpuplatform.kube.kinds import Manifest
from gpuplatform.reconciliation.inspection import ObjectEvent

MESSAGE_LENGTH: Final = 300
_STARTING: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
_PULL_FAILURES: Final = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}
)


def waiting_reason(status: Manifest) -> str:
    """Return the reason why a container waits, or an empty string while it starts normally."""
    reason = str(field(status, "state", "waiting", "reason") or "")
    return "" if reason in _STARTING else reason


def pod_steps(pod: Manifest, events: Sequence[ObjectEvent]) -> Iterator[Step]:
    """Yield the steps of a pod; `events` may include Events of other objects."""
    name = field(pod, "metadata", "name")
    own = [one for one in events if one.object_kind == "Pod" and one.object_name == name]
    statuses = items(pod, "status", "containerStatuses")
    status = statuses[0] if statuses else {}
    yield Step("Created", _time(field(pod, "metadata", "creationTimestamp")))
    yield _scheduled(pod)
    yield from _image(status, own)
    yield from _container_runs(status)
    yield _ready(pod, status, own)


def _scheduled(pod: Manifest) -> Step:
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == "True":
        node = field(pod, "spec", "nodeName")
        at = _time(scheduled.get("lastTransitionTime"))
        return Step("Scheduled", at, text=shortened(f"on {node}") if node else "")
    message = str(scheduled.get("message") or "")
    shape = Shape.FAILED if scheduled.get("status") == "False" else Shape.OFF
    return Step("Scheduled", None, shape, _not_yet(message))


def _image(status: Manifest, events: Sequence[ObjectEvent]) -> Iterator[Step]:
    if waiting_reason(status) in _PULL_FAILURES:
        message = field(status, "state", "waiting", "message") or field(status, "image")
        text = f"{waiting_reason(status)}: {message}"
        yield Step("Image pull", None, Shape.FAILED, shortened(text, MESSAGE_LENGTH))
        return
    pulled = [one for one in events if one.reason == "Pulled"]
    if pulled:
        yield Step("Image pull", _time(pulled[-1].first_seen), text=shortened(pulled[-1].message))


def _container_runs(status: Manifest) -> Iterator[Step]:
    """Yield the start of the container, and the start and end of its previous run."""
    last = field(status, "lastState", "terminated")
    ended = field(status, "state", "terminated") or last
    running = _time(field(status, "state", "running", "startedAt"))
    if ended:
        restarts = number(status, "restartCount")
        code = f"exit code {number(ended, 'exitCode')}"
        again = f", {counted(restarts, 'restart')}" if restarts else ""
        text = f"{field(ended, 'reason') or 'Ended'}: {code}{again}"
        shape = Shape.FAILED if number(ended, "exitCode") else Shape.OFF
        yield Step("Started", _time(field(ended, "startedAt")), text="previous run")
        yield Step("Ended", _time(field(ended, "finishedAt")), shape, shortened(text))
    if running is not None:
        yield Step("Started", running)


def _ready(pod: Manifest, status: Manifest, events: Sequence[ObjectEvent]) -> Step:
    ready = condition(pod, "Ready")
    if ready.get("status") == "True":
        return Step("Ready", _time(ready.get("lastTransitionTime")))
    if field(status, "state", "running") is not None:
        unhealthy = [one.message for one in events if one.reason == "Unhealthy"]
        has_probe = any(field(one, "readinessProbe") for one in items(pod, "spec", "containers"))
        obstacle = "the readiness probe fails" if has_probe else "not ready"
        text = unhealthy[0] if unhealthy else f"running, but {obstacle}"
        return Step("Ready", None, Shape.WAITING, _not_yet(text))
    return Step("Ready", None, Shape.OFF, _not_yet(waiting_reason(status)))


def _not_yet(obstacle: str) -> str:
    return shortened(f"not yet: {obstacle}", MESSAGE_LENGTH) if obstacle else "not yet"


def _time(text: object) -> datetime | None:
    try:
        return parse_rfc3339(str(text))
    except ValueError:
        return None
