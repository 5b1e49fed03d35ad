"""An in-memory cluster of leases, with faults."""

import copy
import threading
from collections.abc import Callable

from gpuplatform.kube.errors import (
    ClusterConflict,
    ClusterError,
    ClusterRejected,
    ClusterUnavailable,
)
from gpuplatform.kube.kinds import Manifest, ResourceKind


class LeaseStore:
    """Leases with the version checks of an API server; thread-safe."""

    def __init__(self) -> None:
        self.leases: dict[str, Manifest] = {}
        self._version = 0
        self._lock = threading.Lock()

    def get(
        self, kind: ResourceKind, name: str, *, namespace: str | None = None
    ) -> Manifest | None:
        with self._lock:
            return copy.deepcopy(self.leases.get(name))

    def create(self, kind: ResourceKind, manifest: Manifest) -> Manifest:
        with self._lock:
            if manifest["metadata"]["name"] in self.leases:
                raise ClusterConflict("exists", reason="AlreadyExists", status=409)
            return self._store(manifest)

    def replace(self, kind: ResourceKind, manifest: Manifest) -> Manifest:
        with self._lock:
            stored = self.leases.get(manifest["metadata"]["name"])
            if stored is None:
                raise ClusterRejected("not found", reason="NotFound", status=404)
            if stored["metadata"]["resourceVersion"] != manifest["metadata"]["resourceVersion"]:
                raise ClusterConflict("changed", reason="Conflict", status=409)
            return self._store(manifest)

    def delete(self, name: str) -> None:
        with self._lock:
            self.leases.pop(name, None)

    def _store(self, manifest: Manifest) -> Manifest:
        self._version += 1
        stored = copy.deepcopy(manifest)
        stored["metadata"]["resourceVersion"] = str(self._version)
        self.leases[manifest["metadata"]["name"]] = stored
        return copy.deepcopy(stored)


class Wire:
    """The connection of one process to a store; it can fail before or after the effect.

    Requests and responses can take time.
    """

    def __init__(self, store: LeaseStore) -> None:
        self._store = store
        self.before: ClusterError | None = None
        self.after: ClusterError | None = None
        """Applies to writes only."""
        self.on_the_way: Callable[[], None] = lambda: None
        self.on_the_way_back: Callable[[], None] = lambda: None
        self.calls = 0

    def cut(self) -> None:
        self.before = ClusterUnavailable("cut")

    def mend(self) -> None:
        self.before = self.after = None

    def get(
        self, kind: ResourceKind, name: str, *, namespace: str | None = None
    ) -> Manifest | None:
        return self._call(lambda: self._store.get(kind, name, namespace=namespace))

    def create(self, kind: ResourceKind, manifest: Manifest) -> Manifest:
        return self._write(lambda: self._store.create(kind, manifest))

    def replace(self, kind: ResourceKind, manifest: Manifest) -> Manifest:
        return self._write(lambda: self._store.replace(kind, manifest))

    def _write(self, act: Callable[[], Manifest]) -> Manifest:
        made = self._call(act)
        if self.after is not None:
            raise self.after
        assert made is not None
        return made

    def _call(self, act: Callable[[], Manifest | None]) -> Manifest | None:
        self.calls += 1
        self.on_the_way()
        if self.before is not None:
            raise self.before
        answer = act()
        self.on_the_way_back()
        return answer
