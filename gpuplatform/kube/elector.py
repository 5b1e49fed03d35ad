"""Leader election among several processes with a Lease in the cluster.

The leader renews the lease every two seconds. It may act for `renew_seconds` after it sent the
last successful renewal. Another process acquires the lease only if it has observed the lease
unchanged for `lease_seconds` after its own read. The first period is shorter and begins earlier,
so the old leader has stopped before a new one starts, regardless of slow requests and wall clocks.
Kubernetes does not fence writes: a write of the old leader can arrive late. Therefore, all writes
under a lease must be idempotent.
"""

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

from gpuplatform import clock as wall_clock
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.deadline import deadline
from gpuplatform.kube.errors import ClusterConflict, ClusterError
from gpuplatform.kube.kinds import LEASE, Manifest

_LOG = logging.getLogger(__name__)

STEP_SECONDS = 3.0
"""Time limit in seconds for the requests of one attempt, so that `renew_seconds` allows
several."""
JITTER = 0.2


@dataclass
class Elector:
    """A candidate for a lease."""

    cluster: Cluster
    _: KW_ONLY
    namespace: str
    name: str
    identity: str
    """The holder identity, which must be unique for each start of each process."""
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
        """The lease as this process last wrote it, or `None` if the last write is uncertain."""
        self._has_tried = False
        self._has_led = False
        self._seen = ""
        self._seen_at = 0.0

    def may_act(self) -> bool:
        """Return whether this process is the leader now. Check this before each write."""
        renewed_at = self._renewed_at
        return renewed_at is not None and self.clock() < renewed_at + self.renew_seconds

    def run(self, stop: threading.Event) -> None:
        """Acquire and renew the lease until `stop` is set, then release it."""
        while not stop.is_set():
            self.step()
            stop.wait(self._pause_seconds())
        self.release()

    def step(self) -> None:
        """Try once to renew or acquire the lease. Cluster errors are logged."""
        try:
            with deadline(STEP_SECONDS):
                self._renew_or_acquire()
        except ClusterError as error:
            self._lease = None
            _LOG.warning("the lease '%s' could not be renewed or acquired: %s", self.name, error)
        self._log_change()

    def release(self) -> None:
        """Release the lease, so that another process does not have to wait until it expires."""
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
        except ClusterError as error:
            _LOG.info("the lease '%s' could not be released and will expire: %s", self.name, error)
        self._lease = None

    def _renew_or_acquire(self) -> None:
        if self._lease is not None:
            try:
                self._write(self._lease)
            except ClusterConflict:
                self._lease = None  # Another client changed it, perhaps only a label.
            else:
                return
        lease = self.cluster.get(LEASE, self.name, namespace=self.namespace)
        if lease is None:
            self._create()
            return
        if self._is_mine(lease) or self._is_free(lease):
            self._write(lease)

    def _create(self) -> None:
        """Create the lease, unless another leader may not have observed its deletion yet."""
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
        """Return whether this process holds the lease, even if the response was lost."""
        return self._has_tried and lease["spec"].get("holderIdentity") == self.identity

    def _is_free(self, lease: Manifest) -> bool:
        """Return whether the lease has no holder, or was observed unchanged for its duration.

        The resource versions are compared, because the times in the lease are of another clock.
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
        """Return the pause with jitter, at most the time until the renewal of a leader expires."""
        pause = self.retry_seconds * (1 + JITTER * random.random())  # noqa: S311  # jitter
        renewed_at = self._renewed_at
        if renewed_at is None:
            return pause
        return max(0.0, min(pause, renewed_at + self.renew_seconds - self.clock()))
