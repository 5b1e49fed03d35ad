"""The back-off between the failure of a pod of a Job and its replacement. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from gpuplatform.clock import parse_rfc3339
from gpuplatform.dev.simulator.apiserver.objects import Manifest, condition

_FIRST: Final = timedelta(seconds=10)
_LONGEST: Final = timedelta(minutes=10)
_MAX_DOUBLINGS: Final = 10


@dataclass(frozen=True, slots=True)
class Failures:
    """The failures of the pods of a Job since the last pod that succeeded."""

    count: int = 0
    last: datetime | None = None
    """The time of the last failure, or `None` without a failure."""

    def after(self, ended: Iterable[Manifest]) -> "Failures":
        """Return the failures after further pods have ended."""
        found = self
        for moment, pod in sorted(((finished_at(pod), pod) for pod in ended), key=_moment):
            has_succeeded = pod.get("status", {}).get("phase") == "Succeeded"
            found = Failures() if has_succeeded else Failures(found.count + 1, moment)
        return found

    def replaced_at(self) -> datetime | None:
        """Return the time before which no pod is created, or `None` without a failure."""
        if self.last is None:
            return None
        return self.last + min(_FIRST * (1 << min(self.count - 1, _MAX_DOUBLINGS)), _LONGEST)


def finished_at(pod: Manifest) -> datetime:
    """Return the time at which a pod has ended.

    This is the end of its last container, the time since which it is not ready, the time of its
    deletion, or the time of its creation.
    """
    status, metadata = pod.get("status", {}), pod["metadata"]
    ends = [
        one.get("state", {}).get("terminated", {}).get("finishedAt")
        for one in status.get("containerStatuses", ())
    ]
    if ends and all(ends):
        return max(map(parse_rfc3339, ends))
    ready = condition(pod, "Ready")
    if ready.get("status") == "False" and ready.get("lastTransitionTime"):
        return parse_rfc3339(ready["lastTransitionTime"])
    if "deletionTimestamp" in metadata:
        grace = timedelta(seconds=metadata.get("deletionGracePeriodSeconds", 0))
        return parse_rfc3339(metadata["deletionTimestamp"]) - grace
    return parse_rfc3339(metadata["creationTimestamp"])


def _moment(found: tuple[datetime, Manifest]) -> datetime:
    return found[0]
