"""How a pod came up, step by step: made, scheduled, image there, started, ready.

Read from the pod's own status and its Events. What has not happened yet is the last step, with
what is in its way.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from gpuplatform.adminkit.display.badges import Shape
from gpuplatform.adminkit.display.text import shortened
from gpuplatform.adminkit.display.timeline import Step
from gpuplatform.clock import parse_rfc3339
from gpuplatform.kube.fields import condition, field, items, number
from gpuplatform.kube.kinds import Manifest
from gpuplatform.reconciliation.inspection import ObjectEvent

MESSAGE_LENGTH: Final = 300
_ON_ITS_WAY: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
_NO_IMAGE: Final = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}
)


def waiting_reason(status: Manifest) -> str:
    """Return why a container does not run; empty while nothing is in its way."""
    reason = str(field(status, "state", "waiting", "reason") or "")
    return "" if reason in _ON_ITS_WAY else reason


def pod_steps(pod: Manifest, events: Sequence[ObjectEvent]) -> Iterator[Step]:
    """Yield the steps of a pod; `events` may be about others too."""
    name = field(pod, "metadata", "name")
    own = [one for one in events if one.object_kind == "Pod" and one.object_name == name]
    statuses = items(pod, "status", "containerStatuses")
    status = statuses[0] if statuses else {}
    yield Step("Made", _time(field(pod, "metadata", "creationTimestamp")))
    yield _scheduled(pod)
    yield from _image(status, own)
    yield from _runs(status)
    yield _ready(pod, status, own)


def _scheduled(pod: Manifest) -> Step:
    said = condition(pod, "PodScheduled")
    if said.get("status") == "True":
        node = field(pod, "spec", "nodeName")
        at = _time(said.get("lastTransitionTime"))
        return Step("Scheduled", at, text=shortened(f"on {node}") if node else "")
    message = str(said.get("message") or "")
    shape = Shape.FAILED if said.get("status") == "False" else Shape.OFF
    return Step("Scheduled", None, shape, _not_yet(message))


def _image(status: Manifest, events: Sequence[ObjectEvent]) -> Iterator[Step]:
    if waiting_reason(status) in _NO_IMAGE:
        said = field(status, "state", "waiting", "message") or field(status, "image")
        words = f"{waiting_reason(status)}: {said}"
        yield Step("Image", None, Shape.FAILED, shortened(words, MESSAGE_LENGTH))
        return
    pulled = [one for one in events if one.reason == "Pulled"]
    if pulled:
        yield Step("Image", _time(pulled[-1].first_seen), text=shortened(pulled[-1].message))


def _runs(status: Manifest) -> Iterator[Step]:
    """Yield that its container started, and how its last run ended."""
    last = field(status, "lastState", "terminated")
    ended = field(status, "state", "terminated") or last
    running = _time(field(status, "state", "running", "startedAt"))
    if ended:
        restarts = number(status, "restartCount")
        code = f"exit code {number(ended, 'exitCode')}"
        often = f", {restarts} restarts" if restarts else ""
        words = f"{field(ended, 'reason') or 'ended'}: {code}{often}"
        shape = Shape.FAILED if number(ended, "exitCode") else Shape.OFF
        yield Step("Started", _time(field(ended, "startedAt")), text="its last run")
        yield Step("Ended", _time(field(ended, "finishedAt")), shape, shortened(words))
    if running is not None:
        yield Step("Started", running)


def _ready(pod: Manifest, status: Manifest, events: Sequence[ObjectEvent]) -> Step:
    said = condition(pod, "Ready")
    if said.get("status") == "True":
        return Step("Ready", _time(said.get("lastTransitionTime")))
    if field(status, "state", "running") is not None:
        unhealthy = [one.message for one in events if one.reason == "Unhealthy"]
        has_probe = any(field(one, "readinessProbe") for one in items(pod, "spec", "containers"))
        why = "its readiness probe does not pass" if has_probe else "it does not get ready"
        words = unhealthy[0] if unhealthy else f"it runs, and {why}"
        return Step("Ready", None, Shape.WAITING, _not_yet(words))
    return Step("Ready", None, Shape.OFF, _not_yet(waiting_reason(status)))


def _not_yet(why: str) -> str:
    return shortened(f"not yet: {why}", MESSAGE_LENGTH) if why else "not yet"


def _time(text: object) -> datetime | None:
    try:
        return parse_rfc3339(str(text))
    except ValueError:
        return None
