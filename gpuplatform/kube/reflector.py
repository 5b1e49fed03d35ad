"""Follows one kind without ever losing a change: a list is the truth, a watch only a hint.

The controller runs one reflector a kind, each in its own thread. What the callbacks get: `on_list`
with everything there is, complete, at the start and after every gap; between them `on_event` with
each change. A consumer that replaces what it knows by the list (and so notices deletions that no
event told) and then takes the events is never wrong for longer than the gap. Repeated and older
events do occur; the resource version tells.
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
    """What a reflector asks of `Cluster`."""

    def list(
        self, kind: ResourceKind, *, namespace: str | None = None, label_selector: str = ""
    ) -> Listing:
        """Return everything there is, or raise."""

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
        """Follow what happens after the version."""


@dataclass(frozen=True, slots=True)
class Timings:
    """How long a reflector waits for what."""

    watch_seconds: tuple[float, float] = (60, 120)
    """A watch ends after a random time in this range, so that watches do not end together."""
    silence_seconds: float = 75
    """Bookmarks come about once a minute: a connection silent for longer is dead."""
    backoff_seconds: tuple[float, float] = (0.8, 30)
    """The limit of the random wait after the first failure, and its greatest."""
    retry_after_seconds: float = 300
    """The longest wait that a server is granted which asks for one."""
    short_watch_seconds: float = 1
    """A watch that ends sooner, and without a line, is a failure: it would be a busy loop."""


@dataclass
class Reflector:
    """A kind, and who is told about it."""

    cluster: Source
    kind: ResourceKind
    _: KW_ONLY
    on_list: Callable[[Listing], None]
    on_event: Callable[[str, Manifest], None]
    namespace: str | None = None
    label_selector: str = ""
    retry_on: tuple[type[Exception], ...] = ()
    """Errors of the callbacks, beside our own, that are answered by a new list after a wait.

    Any other error ends `run`: it is a bug, and whoever runs the thread must not hide it.
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
        """How often a complete list was needed again since the first one."""
        return self._restarts

    @property
    def is_synced(self) -> bool:
        """Whether a complete list was dealt with since the start."""
        return self._listed

    @property
    def is_failing(self) -> bool:
        """Whether the last list or watch failed and no complete list was dealt with since."""
        return self._is_failing

    def last_good_list_age_seconds(self) -> float:
        """Return for how long the kind may have been out of sight; infinite before the first list.

        A watch that goes on, bookmarks included, keeps its list good.
        """
        at = self._last_good_at
        return float("inf") if at is None else max(0.0, self.clock() - at)

    def run(self, stop: threading.Event) -> None:
        """List and watch until `stop` is set, then return at once, even out of a blocked read.

        The callbacks run in this thread. What the cluster does never ends it.
        """
        answered: tuple[type[Exception], ...] = (PlatformError, *self.retry_on)
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
                except answered as fault:
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
        """Deal with the events after `version`; return where the next watch goes on.

        `None` asks for a new list: a watch that ends without a line, not even a bookmark, may have
        been blind. So is one after a version that the server has yet to reach, because its data
        was restored from a backup: it stays silent for ever, and no error says so.
        """
        begun_at = self.clock()
        lines = 0
        stream = self.cluster.watch(
            self.kind,
            resource_version=version,
            namespace=self.namespace,
            label_selector=self.label_selector,
            timeout_seconds=random.uniform(*self.timings.watch_seconds),  # noqa: S311  # a spread
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
                self._is_well()
        finally:
            stream.close()
        if lines or stop.is_set():
            return version
        if self.clock() - begun_at < self.timings.short_watch_seconds:
            raise ClusterUnavailable("The cluster ends each watch at once.")
        return None

    def _is_well(self) -> None:
        self._last_good_at = self.clock()
        self._failures = 0

    def _wait(self, stop: threading.Event, fault: Exception) -> None:
        least, most = self.timings.backoff_seconds
        # Past 30 doublings the most is reached whatever the least is.
        limit = min(most, least * 2 ** min(self._failures, 30))
        seconds = random.uniform(0, limit)  # noqa: S311  # a spread, not a secret
        self._failures += 1
        self._is_failing = True
        if isinstance(fault, PlatformError) and fault.retry_after is not None:
            seconds = max(seconds, min(fault.retry_after, self.timings.retry_after_seconds))
        _LOG.warning("%s are listed again in %.1f s: %s", self.kind.plural, seconds, fault)
        stop.wait(seconds)


def _fire_at(stop: threading.Event, interrupt: Interrupt) -> None:
    stop.wait()
    interrupt.fire()
