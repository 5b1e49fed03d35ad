"""Leader election among several processes, by a Lease in the cluster.

The leader renews the lease every two seconds. It acts only while its last successful renewal is
younger than `renew_seconds`, counted from before that request was sent. Another process acquires
the lease only after it has seen it unchanged for `lease_seconds`, counted from after its own read.
The first period is shorter and begins earlier, so the old leader has stopped before a new one
starts, regardless of slow requests and of wall clocks. Kubernetes does not fence: a write that was
started in time can still arrive late, so everything done under a lease has to be idempotent.
"""

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Protocol

from gpuplatform import clock as wall_clock
from gpuplatform.errors import ClusterConflict, ClusterError
from gpuplatform.kube.deadline import deadline
from gpuplatform.kube.kinds import LEASE, Manifest, ResourceKind

_LOG = logging.getLogger(__name__)

STEP_SECONDS = 3.0
"""Time limit of all requests of one attempt: several attempts fit into `renew_seconds`."""
JITTER = 0.2


class LeaseStore(Protocol):
    """The methods of `Cluster` that an elector uses."""

    def get(
        self, kind: ResourceKind, name: str, *, namespace: str | None = None
    ) -> Manifest | None:
        """Return the object or `None`."""

    def create(self, kind: ResourceKind, manifest: Manifest) -> Manifest:
        """Create the object, unless it exists."""

    def replace(self, kind: ResourceKind, manifest: Manifest) -> Manifest:
        """Replace the version that the manifest names."""


@dataclass
class Elector:
    """A candidate for one lease."""

    cluster: LeaseStore
    _: KW_ONLY
    namespace: str
    name: str
    identity: str
    """Unique for every start of every process."""
    lease_seconds: float = 15
    renew_seconds: float = 10
    retry_seconds: float = 2
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        if not self.lease_seconds > self.renew_seconds > self.retry_seconds * (1 + JITTER) > 0:
            msg = "needs lease_seconds > renew_seconds > 1.2 * retry_seconds > 0"
            raise ValueError(msg)
        self._renewed_at: float | None = None
        self._logged_leading = False
        self._lease: Manifest | None = None
        """The lease as this process last wrote it; `None` if that is uncertain."""
        self._has_tried = False
        self._has_led = False
        self._seen = ""
        self._seen_at = 0.0

    def may_act(self) -> bool:
        """Whether this process is the leader now. Check before every write."""
        renewed_at = self._renewed_at
        return renewed_at is not None and self.clock() < renewed_at + self.renew_seconds

    @property
    def is_leader(self) -> bool:
        """The same as `may_act()`, for displays."""
        return self.may_act()

    def run(self, stop: threading.Event) -> None:
        """Be a candidate or the leader until `stop` is set; then release the lease."""
        while not stop.is_set():
            self.step()
            stop.wait(self._pause_seconds())
        self.release()

    def step(self) -> None:
        """Try once to renew or to acquire the lease; cluster errors are only logged."""
        try:
            with deadline(STEP_SECONDS):
                self._renew_or_acquire()
        except ClusterError as fault:
            self._lease = None
            _LOG.warning("The lease '%s' could not be renewed or acquired: %s", self.name, fault)
        self._log_change()

    def release(self) -> None:
        """Stop leading, and release the lease so that a successor need not wait for its expiry."""
        was_mine = self.may_act() and self._lease is not None
        self._renewed_at = None
        self._log_change()
        if not was_mine or self._lease is None:
            return
        spec = {**self._lease["spec"], "leaseDurationSeconds": 1}
        del spec["holderIdentity"]
        try:
            with deadline(STEP_SECONDS):
                self.cluster.replace(LEASE, {**self._lease, "spec": spec})
        except ClusterError as fault:
            _LOG.info("The lease '%s' is left to expire: %s", self.name, fault)
        self._lease = None

    def _renew_or_acquire(self) -> None:
        if self._lease is not None:
            try:
                self._write(self._lease)
            except ClusterConflict:
                self._lease = None  # Another writer changed it, perhaps only a label.
            else:
                return
        lease = self.cluster.get(LEASE, self.name, namespace=self.namespace)
        if lease is None:
            self._create()
            return
        if self._is_mine(lease) or self._is_free(lease):
            self._write(lease)

    def _create(self) -> None:
        """Create the lease, unless it was deleted under a leader that may not have noticed."""
        may_have_leader = bool(self._seen) or self._has_led
        if may_have_leader and not self.may_act() and not self._is_unchanged("absent"):
            return
        begun_at = self.clock()
        self._has_tried = True
        lease = self.cluster.create(
            LEASE,
            {
                "apiVersion": LEASE.api_version,
                "kind": LEASE.kind,
                "metadata": {"name": self.name, "namespace": self.namespace},
                "spec": self._spec({}),
            },
        )
        self._set_leader(lease, begun_at)

    def _write(self, lease: Manifest) -> None:
        begun_at = self.clock()
        self._has_tried = True
        written = self.cluster.replace(LEASE, {**lease, "spec": self._spec(lease["spec"])})
        self._set_leader(written, begun_at)

    def _set_leader(self, lease: Manifest, begun_at: float) -> None:
        self._lease = lease
        self._has_led = True
        self._seen = ""
        self._renewed_at = begun_at

    def _is_mine(self, lease: Manifest) -> bool:
        """Whether this process holds it: also by a write whose response was lost."""
        return self._has_tried and lease["spec"].get("holderIdentity") == self.identity

    def _is_free(self, lease: Manifest) -> bool:
        """Whether the lease has no holder, or was seen unchanged for its whole duration.

        The resource version decides, not the times in the lease, which are of another clock.
        """
        if not lease["spec"].get("holderIdentity"):
            return True
        self._renewed_at = None  # Another process holds it.
        given = lease["spec"].get("leaseDurationSeconds") or 0
        return self._is_unchanged(lease["metadata"]["resourceVersion"], given)

    def _is_unchanged(self, version: str, given_seconds: float = 0) -> bool:
        if version != self._seen:
            self._seen, self._seen_at = version, self.clock()
        return self.clock() > self._seen_at + max(self.lease_seconds, given_seconds)

    def _spec(self, before: Manifest) -> Manifest:
        now = wall_clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        is_same_holder = before.get("holderIdentity") == self.identity
        transitions = before.get("leaseTransitions") or 0
        return {
            **before,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self.lease_seconds)),
            "renewTime": now,
            "acquireTime": before.get("acquireTime", now) if is_same_holder else now,
            "leaseTransitions": transitions if is_same_holder or not before else transitions + 1,
        }

    def _log_change(self) -> None:
        leads = self.may_act()
        if leads == self._logged_leading:
            return
        self._logged_leading = leads
        _LOG.info("%s %s the lease '%s'", self.identity, "holds" if leads else "lost", self.name)

    def _pause_seconds(self) -> float:
        """Return a pause with jitter; a leader wakes up no later than its renewal expires."""
        pause = self.retry_seconds * (1 + JITTER * random.random())  # noqa: S311  # jitter
        renewed_at = self._renewed_at
        if renewed_at is None:
            return pause
        return max(0.0, min(pause, renewed_at + self.renew_seconds - self.clock()))
