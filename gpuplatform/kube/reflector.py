"""Follows one kind without losing a change: lists are authoritative, watches report changes.

The controller runs one reflector per kind, each in its own thread. `on_list` gets the complete
list at the start and after every gap; `on_event` gets each change in between. A consumer that
replaces its state by the list (and so notices deletions without an event) and then applies the
events is wrong for no longer than the gap. Events can be repeated or older than the state; compare
resource versions.
"""

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Protocol

from gpuplatform.errors import ClusterUnavailable, PlatformError
from gpuplatform.kube.client import Listing
from gpuplatform.kube.interrupt import Interrupt, interruptible
from gpuplatform.kube.kinds import Manifest, ResourceKind
from gpuplatform.kube.watch import WatchStream

_LOG = logging.getLogger(__name__)

_CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})


class Source(Protocol):
    """The methods of `Cluster` that a reflector uses."""

    def list(
        self, kind: ResourceKind, *, namespace: str | None = None, label_selector: str = ""
    ) -> Listing:
        """Return the complete list, or raise."""

    def watch(
        self,
        kind: ResourceKind,
        *,
        resource_version: str,
        namespace: str | None = None,
        label_selector: str = "",
        timeout_seconds: float,
        silence_seconds: float | None = None,
    ) -> WatchStream:
        """Return the events after the version."""


@dataclass(frozen=True, slots=True)
class Timings:
    """The time limits of a reflector."""

    watch_seconds: tuple[float, float] = (60, 120)
    """A watch ends after a random time in this range, so that watches do not end together."""
    silence_seconds: float = 75
    """Bookmarks arrive about once a minute: a connection that is silent for longer is dead."""
    backoff_seconds: tuple[float, float] = (0.8, 30)
    """Maximum of the random wait after the first failure, and its upper limit."""
    retry_after_seconds: float = 300
    """Maximum wait that the server can request (Retry-After)."""
    short_watch_seconds: float = 1
    """A watch that ends sooner without an event is a failure, to prevent a busy loop."""


@dataclass
class Reflector:
    """Lists and watches one kind, and calls back."""

    cluster: Source
    kind: ResourceKind
    _: KW_ONLY
    on_list: Callable[[Listing], None]
    on_event: Callable[[str, Manifest], None]
    namespace: str | None = None
    label_selector: str = ""
    retry_on: tuple[type[Exception], ...] = ()
    """Errors of the callbacks, in addition to `PlatformError`, that cause a new list after a wait.

    Any other error ends `run`: it is a bug.
    """
    timings: Timings = field(default_factory=Timings)
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._listed = False
        self._last_good_at: float | None = None
        self._failures = 0
        self._is_failing = False
        self._restarts = 0

    @property
    def restarts(self) -> int:
        """Number of complete lists after the first one."""
        return self._restarts

    @property
    def is_synced(self) -> bool:
        """Whether a complete list has been processed since the start."""
        return self._listed

    @property
    def is_failing(self) -> bool:
        """Whether the last list or watch failed, without a complete list since."""
        return self._is_failing

    def last_good_list_age_seconds(self) -> float:
        """Return for how long changes may have been missed; infinite before the first list.

        Every event of a watch, bookmarks included, resets the age.
        """
        at = self._last_good_at
        return float("inf") if at is None else max(0.0, self.clock() - at)

    def run(self, stop: threading.Event) -> None:
        """List and watch until `stop` is set, then return immediately, even from a blocked read.

        The callbacks run in this thread. Cluster errors never end it.
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
                except handled as fault:
                    if not stop.is_set():
                        self._wait(stop, fault)

    def _list(self) -> str:
        listing = self.cluster.list(
            self.kind, namespace=self.namespace, label_selector=self.label_selector
        )
        self.on_list(listing)
        self._restarts += self._listed
        self._listed = True
        self._is_failing = False
        self._last_good_at = self.clock()
        return listing.resource_version

    def _watch(self, version: str, stop: threading.Event) -> str | None:
        """Process the events after `version`; return the version for the next watch.

        `None` requests a new list: a watch that ends without any event, not even a bookmark, may
        have missed changes. This is the case after a version that the server has not reached,
        because its data was restored from a backup: such a watch stays silent without an error.
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
            raise ClusterUnavailable("The cluster ends each watch immediately.")
        return None

    def _record_success(self) -> None:
        self._last_good_at = self.clock()
        self._failures = 0

    def _wait(self, stop: threading.Event, fault: Exception) -> None:
        least, most = self.timings.backoff_seconds
        # After 30 doublings the upper limit is reached for any lower one.
        limit = min(most, least * 2 ** min(self._failures, 30))
        seconds = random.uniform(0, limit)  # noqa: S311  # jitter, not a secret
        self._failures += 1
        self._is_failing = True
        if isinstance(fault, PlatformError) and fault.retry_after is not None:
            seconds = max(seconds, min(fault.retry_after, self.timings.retry_after_seconds))
        _LOG.warning("%s will be listed again in %.1f s: %s", self.kind.plural, seconds, fault)
        stop.wait(seconds)


def _fire_at(stop: threading.Event, interrupt: Interrupt) -> None:
    stop.wait()
    interrupt.fire()
