"""The steps that a starting pod waits for, and their durations, from the cluster. Pure.

Only timestamps and reasons of the cluster determine the steps. Its timestamps have whole seconds,
and the clocks of nodes differ: each step begins when the previous one ends, and none ends in the
future.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from gpuplatform import clock
from gpuplatform.kube.fields import condition, field, items, text
from gpuplatform.kube.kinds import Manifest
from gpuplatform.workloads.container_failures import has_failed_pull

_PULLING: Final = "Pulling"
_PULLED: Final = "Pulled"
"""The reasons of the kubelet's Events. The message of the second one has the size of the image."""
_LONGEST_TEXT: Final = 500
_UNKNOWN: Final = datetime.max.replace(tzinfo=UTC)

LONG_START_SECONDS: Final = 2.0
"""Time in seconds between the placement of a pod and the start of its container that does not
suggest an image pull."""


class StartStep(StrEnum):
    """What a starting pod waits for, in this order."""

    GPU = "GPU"
    IMAGE_PULL = "ImagePull"
    CONTAINER_START = "ContainerStart"
    READINESS = "Readiness"


@dataclass(frozen=True, slots=True)
class StepTime:
    """The time of a step."""

    step: StartStep
    since: datetime
    seconds: int | None = None
    """The duration, or `None` if the step has not ended."""
    text: str = ""
    """The message of the kubelet about an image pull."""

    def manifest(self) -> Manifest:
        """Return the step as an entry of a status."""
        found = {"step": self.step.value, "since": clock.rfc3339(self.since)}
        optional = {"seconds": self.seconds, "message": self.text or None}
        return found | {key: value for key, value in optional.items() if value is not None}


def steps_in(status: Any) -> list[StepTime]:
    """Return the steps in a status. Invalid entries are omitted."""
    return [step for one in items(status, "startSteps") if (step := _parsed(one)) is not None]


def is_complete(steps: Sequence[StepTime]) -> bool:
    """Return whether all steps have ended."""
    return bool(steps) and steps[-1].step == StartStep.READINESS and steps[-1].seconds is not None


def may_pull(pod: Manifest, at: datetime) -> bool:
    """Return whether the Events of `pod` may report an image pull.

    They do if a pull failed, and may do if the start takes long.
    """
    placed = _placed(pod)
    if placed is None:
        return False
    started = _started(pod) or at
    is_long = (started - placed).total_seconds() >= LONG_START_SECONDS
    return is_long or has_failed_pull(pod)


def start_steps(
    previous: Sequence[StepTime],
    claimed_at: datetime,
    pods: Sequence[Manifest],
    events: Iterable[Manifest],
    at: datetime,
) -> list[StepTime]:
    """Return the steps of the newest pod.

    Args:
        previous: The steps in the status. They remain unchanged after they have ended, until
            another pod is created.
        claimed_at: The time at which the first pod was requested.
        pods: The pods of the unit.
        events: The Events about the pods.
        at: The time of the read.
    """
    pod = max(pods, key=lambda one: text(one, "metadata", "creationTimestamp"), default={})
    created = _time(pod, "metadata", "creationTimestamp")
    since = previous[0].since if previous else claimed_at
    if is_complete(previous):
        if created is None or created <= previous[-1].since:
            return list(previous)
        since = created
    return list(_steps(since, pod, list(events), at))


def _steps(
    since: datetime, pod: Manifest, events: Sequence[Manifest], at: datetime
) -> Iterator[StepTime]:
    """Yield the steps until the first one that has not ended."""
    uid = field(pod, "metadata", "uid")
    own = [event for event in events if field(event, "involvedObject", "uid") == uid]
    pulling = [event for event in own if event.get("reason") == _PULLING]
    started, ready = _started(pod), _ready(pod)
    ends: list[tuple[StartStep, datetime | None, str]] = [(StartStep.GPU, _placed(pod), "")]
    if pulling:
        pulled = [event for event in own if event.get("reason") == _PULLED]
        last = max((*pulled, *pulling), key=_at)  # Of the same second: the end.
        end = _at(last) if last in pulled else started
        ends.append((StartStep.IMAGE_PULL, end, text(last, "message")[:_LONGEST_TEXT]))
    ends += [(StartStep.CONTAINER_START, started, ""), (StartStep.READINESS, ready, "")]
    for step, end, message in ends:
        if end is None:
            yield StepTime(step, since, text=message)
            return
        known = max(since, min(end, at))
        yield StepTime(step, since, round((known - since).total_seconds()), message)
        since = known


def _placed(pod: Manifest) -> datetime | None:
    return _since_true(pod, "PodScheduled")


def _ready(pod: Manifest) -> datetime | None:
    return _since_true(pod, "Ready")


def _started(pod: Manifest) -> datetime | None:
    """Return the time at which the last container was started, or `None` if one is not running."""
    statuses = items(pod, "status", "containerStatuses")
    found = [_time(status, "state", "running", "startedAt") for status in statuses]
    known = [one for one in found if one is not None]
    return max(known) if known and len(known) == len(found) else None


def _since_true(pod: Manifest, type_: str) -> datetime | None:
    found = condition(pod, type_)
    return _time(found, "lastTransitionTime") if found.get("status") == "True" else None


def _at(event: Manifest) -> datetime:
    found = _time(event, "lastTimestamp") or _time(event, "eventTime")
    return found or _time(event, "metadata", "creationTimestamp") or _UNKNOWN


def _time(value: Any, *path: str) -> datetime | None:
    try:
        return clock.parse_rfc3339(text(value, *path))
    except ValueError:
        return None


def _parsed(entry: Any) -> StepTime | None:
    step, since = text(entry, "step"), _time(entry, "since")
    seconds = field(entry, "seconds")
    if step not in set(StartStep) or since is None:
        return None
    is_count = isinstance(seconds, int) and not isinstance(seconds, bool)
    return StepTime(StartStep(step), since, seconds if is_count else None, text(entry, "message"))
