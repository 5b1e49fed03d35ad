"""Lists and watches the objects of one kind, so that no change is missed.

The controller runs a reflector for each kind in its own thread. `on_list` gets the complete list
at the start and after each gap; `on_event` gets each change in between. The callbacks must replace
their state with the list, because deletions during a gap cause no event. Events can be repeated or
older than the state, so compare resource versions.
"""

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field

from gpuplatform.errors import PlatformError
from gpuplatform.kube.client import Cluster, Listing
from gpuplatform.kube.errors import ClusterUnavailable
from gpuplatform.kube.interrupt import Interrupt, interruptible
from gpuplatform.kube.kinds import Manifest, ResourceKind

_LOG = logging.getLogger(__name__)

_CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})


@dataclass(frozen=True, slots=True)
class Timings:
    """The time limits of a reflector, in seconds."""

    watch_seconds: tuple[float, float] = (60, 120)
    """The range of the random duration of a watch, so that watches do not end at the same time."""
    silence_seconds: float = 75
    """Time without data after which a connection counts as lost. Bookmarks arrive every minute."""
    backoff_seconds: tuple[float, float] = (0.8, 30)
    """Maximum of the random wait after the first failure, and the upper limit of that maximum."""
    retry_after_seconds: float = 300
    """Maximum wait that the server can request with `Retry-After`."""
    short_watch_seconds: float = 1
    """Minimum duration of a watch without an event. A shorter watch counts as a failure."""


@dataclass
class Reflector:
    """A client that lists and watches one kind, and calls `on_list` and `on_event`."""

    cluster: Cluster
    kind: ResourceKind
    _: KW_ONLY
    on_list: Callable[[Listing], None]
    on_event: Callable[[str, Manifest], None]
    namespace: str | None = None
    label_selector: str = ""
    retry_on: tuple[type[Exception], ...] = ()
    """Exceptions of the callbacks that cause a new list, in addition to `PlatformError`.

    Any other exception ends `run`.
    """
    timings: Timings = field(default_factory=Timings)
    clock: Callable[[], float] = time.monotonic

    restarts: int = field(default=0, init=False)
    """Number of complete lists after the first list."""
    is_synced: bool = field(default=False, init=False)
    """Whether a complete list has been processed since the start."""
    is_failing: bool = field(default=False, init=False)
    """Whether a list or watch failed after the last complete list."""
    _last_good_at: float | None = field(default=None, init=False)
    _failures: int = field(default=0, init=False)

    def last_good_list_age_seconds(self) -> float:
        """Return the seconds since the last list, event or bookmark.

        Return infinity before the first list.
        """
        at = self._last_good_at
        return float("inf") if at is None else max(0.0, self.clock() - at)

    def run(self, stop: threading.Event) -> None:
        """List and watch until `stop` is set, which also interrupts a blocked read.

        The callbacks run in the same thread. Cluster errors do not end the method.
        """
        handled: tuple[type[Exception], ...] = (PlatformError, *self.retry_on)
        interrupt = Interrupt()
        threading.Thread(
            target=_fire_at, args=(stop, interrupt), name=f"stop-{self.kind.plural}", daemon=True
        ).start()
        with interruptible(interrupt):
            while not stop.is_set():
                try:
                    version: str | None = self._list()
                    while version is not None and not stop.is_set():
                        version = self._watch(version, stop)
                except handled as error:
                    if not stop.is_set():
                        self._wait(stop, error)

    def _list(self) -> str:
        listing = self.cluster.list(
            self.kind, namespace=self.namespace, label_selector=self.label_selector
        )
        self.on_list(listing)
        self.restarts += self.is_synced
        self.is_synced = True
        self.is_failing = False
        self._last_good_at = self.clock()
        return listing.resource_version

    def _watch(self, version: str, stop: threading.Event) -> str | None:
        """Process the events after `version`. Return the version for the next watch.

        Return `None` if a new list is needed because the watch ended without an event and without
        a bookmark. For example, the data of the server was restored from a backup, and the server
        has not reached `version` yet; such a watch reports neither events nor an error.
        """
        started_at = self.clock()
        lines = 0
        stream = self.cluster.watch(
            self.kind,
            resource_version=version,
            namespace=self.namespace,
            label_selector=self.label_selector,
            timeout_seconds=random.uniform(*self.timings.watch_seconds),  # noqa: S311  # jitter
            silence_seconds=self.timings.silence_seconds,
        )
        try:
            for event in stream:
                if stop.is_set():
                    break
                if event.type in _CHANGES:
                    self.on_event(event.type, event.object)
                version = event.resource_version or version
                lines += 1
                self._record_success()
        finally:
            stream.close()
        if lines or stop.is_set():
            return version
        if self.clock() - started_at < self.timings.short_watch_seconds:
            raise ClusterUnavailable(
                "The cluster ends each watch immediately. The platform retries automatically."
            )
        return None

    def _record_success(self) -> None:
        self._last_good_at = self.clock()
        self._failures = 0

    def _wait(self, stop: threading.Event, error: Exception) -> None:
        least, most = self.timings.backoff_seconds
        # The exponent is limited to avoid an overflow.
        limit = min(most, least * 2 ** min(self._failures, 30))
        seconds = random.uniform(0, limit)  # noqa: S311  # jitter, not a secret
        self._failures += 1
        self.is_failing = True
        if isinstance(error, PlatformError) and error.retry_after is not None:
            seconds = max(seconds, min(error.retry_after, self.timings.retry_after_seconds))
        _LOG.warning("%s will be listed again in %.1f s: %s", self.kind.plural, seconds, error)
        stop.wait(seconds)


def _fire_at(stop: threading.Event, interrupt: Interrupt) -> None:
    stop.wait()
    interrupt.fire()
