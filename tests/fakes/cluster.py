"""An in-memory cluster with the interface of `gpuplatform.kube.client.Cluster`.

It implements UIDs, resource versions, generations, preconditions, the status subresource and
garbage collection by owner. It counts writes, and injects faults.
"""

import threading
import uuid
from collections import deque
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field

from typing_extensions import override

from gpuplatform.kube.client import Cluster, Listing
from gpuplatform.kube.errors import ClusterConflict, ClusterRejected
from gpuplatform.kube.kinds import (
    DEPLOYMENT,
    EVENT,
    FIELD_MANAGER,
    JOB,
    NODE,
    POD,
    STOCK_POOL,
    Manifest,
    ResourceKind,
)
from tests.fakes.jobs import settle_job

Key = tuple[str, str, str]
BORN = "2026-01-31T12:00:00Z"


class Killed(BaseException):
    """Simulates the death of the process; the platform does not catch it."""


@dataclass
class Fault:
    """A fault of the next calls of a verb and kind, before or after the effect."""

    verb: str
    kind: ResourceKind | None
    error: BaseException
    acts_first: bool = False
    times: int = 1


@dataclass
class FakeCluster(Cluster):
    """The in-memory cluster; thread-safe."""

    writes: list[str] = field(default_factory=list)
    """Each write, as `verb Kind name`."""
    on_call: Callable[[str, ResourceKind | None], None] | None = None
    version_number: int = 100
    logs: dict[str, str] = field(default_factory=dict)
    """The log of each pod, by the name of the pod."""
    places_pods: bool = False
    """Whether pods get a node: the first one by name that is not cordoned."""

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._objects: dict[Key, Manifest] = {}
        self._faults: deque[Fault] = deque()

    def fail(
        self,
        verb: str,
        kind: ResourceKind | None,
        error: BaseException,
        *,
        acts_first: bool = False,
        times: int = 1,
    ) -> None:
        """Make the next `times` calls of `verb` on `kind` fail with `error`."""
        self._faults.append(Fault(verb, kind, error, acts_first, times))

    def heal(self) -> None:
        """Remove all faults."""
        self._faults.clear()

    def put(self, kind: ResourceKind, manifest: Manifest) -> Manifest:
        """Store an object as another client does: without faults and counting."""
        with self._lock:
            metadata = manifest["metadata"]
            key = _key(kind, metadata.get("namespace"), metadata["name"])
            return deepcopy(self._store(key, manifest, self._objects.get(key)))

    def remove(self, kind: ResourceKind, name: str, *, namespace: str | None = None) -> None:
        """Delete an object as another client does, with its dependents."""
        with self._lock:
            self._drop(_key(kind, namespace, name))

    def get_pool(self, name: str) -> Manifest:
        """Return the stock pool in the default namespace, without a call."""
        with self._lock:
            return deepcopy(self._objects[_key(STOCK_POOL, "runtime-pools", name)])

    def names(self, kind: ResourceKind) -> list[str]:
        """Return the names of all objects of a kind."""
        with self._lock:
            return sorted(name for plural, _, name in self._objects if plural == kind.plural)

    def settle(self, pod_status: Manifest | None = None) -> None:
        """Act as controllers and kubelets: pods run, or have `pod_status`."""
        with self._lock:
            found = [o for key, o in self._objects.items() if key[0] == DEPLOYMENT.plural]
            for deployment in found:
                self._settle_one(deployment, pod_status)
            for job in [o for key, o in self._objects.items() if key[0] == JOB.plural]:
                settle_job(self, job, pod_status)

    def _settle_one(self, deployment: Manifest, pod_status: Manifest | None) -> None:
        metadata, spec = deployment["metadata"], deployment["spec"]
        replicas = spec["replicas"]
        present = self.owned(POD, metadata["uid"])
        place = self._place(present) if self.places_pods and replicas else ""
        pods = [
            {
                **({"spec": {"nodeName": place}} if place else {}),
                "metadata": {
                    "name": f"{metadata['name']}-{number}",
                    "namespace": metadata["namespace"],
                    "labels": spec["template"]["metadata"]["labels"],
                    "ownerReferences": [{"uid": metadata["uid"], "controller": True}],
                },
                "status": pod_status or {"phase": "Running"},
            }
            for number in range(replicas)
        ]
        if [_as_put(self._objects[key]) for key in present] != pods:
            for key in present:
                self._drop(key)
            for pod in pods:
                self.put(POD, pod)
        status = {
            "observedGeneration": metadata["generation"],
            "replicas": replicas,
            "updatedReplicas": replicas,
            "availableReplicas": 0 if pod_status else replicas,
        }
        if deployment.get("status") != status:
            self.put(DEPLOYMENT, {**deployment, "status": status})

    def _place(self, present: list[Key]) -> str:
        """Return the node of the present pods of a Deployment, or the node for new pods."""
        if present:
            return str(self._objects[present[0]]["spec"]["nodeName"])
        return next(
            name
            for (plural, _, name), found in sorted(self._objects.items())
            if plural == NODE.plural and not found["spec"].get("unschedulable")
        )

    def owned(self, kind: ResourceKind, uid: str) -> list[Key]:
        """Return the keys of the objects of a kind that another object owns."""
        return [
            key
            for key, found in self._objects.items()
            if key[0] == kind.plural
            and any(one["uid"] == uid for one in found["metadata"].get("ownerReferences") or [])
        ]

    @override
    def close(self) -> None:
        """Do nothing: there are no connections."""

    @override
    def get(
        self, kind: ResourceKind, name: str, *, namespace: str | None = None
    ) -> Manifest | None:
        with self._lock:
            self._begin("get", kind)
            return deepcopy(self._objects.get(_key(kind, namespace, name)))

    @override
    def list(
        self,
        kind: ResourceKind,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> Listing:
        with self._lock:
            self._begin("list", kind)
            items = [
                deepcopy(found)
                for (plural, place, _), found in sorted(self._objects.items(), key=lambda i: i[0])
                if plural == kind.plural
                and namespace in {None, place}
                and _is_selected(found, label_selector)
                and _has_fields(found, field_selector)
            ]
            return Listing(items, str(self.version_number))

    @override
    def create(self, kind: ResourceKind, manifest: Manifest) -> Manifest:
        metadata = manifest["metadata"]
        key = _key(kind, metadata.get("namespace"), metadata["name"])
        with self._lock:
            fault = self._begin("create", kind, metadata["name"])
            if key in self._objects:
                raise ClusterConflict(f"{kind.plural} exists", reason="AlreadyExists", status=409)
            body = {name: value for name, value in manifest.items() if name != "status"}
            # Only the platform calls this; objects of other clients are put.
            managed = [{"manager": FIELD_MANAGER, "operation": "Update"}]
            body["metadata"] = {**metadata, "managedFields": managed}
            return self._end(fault, self._store(key, body, None))

    @override
    def apply(
        self,
        kind: ResourceKind,
        manifest: Manifest,
        *,
        field_manager: str = FIELD_MANAGER,
        force: bool = True,
    ) -> Manifest:
        metadata = manifest["metadata"]
        key = _key(kind, metadata.get("namespace"), metadata["name"])
        with self._lock:
            fault = self._begin("apply", kind, metadata["name"])
            present = self._objects.get(key)
            self._check(present, metadata)
            if present is not None and not force:
                raise ClusterConflict("another manager owns it", reason="Conflict", status=409)
            wanted = _merged(present or {}, manifest)
            for name, value in manifest.items():
                if isinstance(value, dict) and name == "spec":
                    wanted[name] = {**(present or {}).get(name, {}), **deepcopy(value)}
            return self._end(fault, self._store(key, wanted, present))

    @override
    def merge_patch(
        self,
        kind: ResourceKind,
        name: str,
        patch: Manifest,
        *,
        namespace: str | None = None,
        subresource: str = "",
    ) -> Manifest:
        key = _key(kind, namespace, name)
        with self._lock:
            fault = self._begin("patch", kind, name)
            present = self._objects.get(key)
            if present is None:
                raise ClusterRejected(f"{name} not found", reason="NotFound", status=404)
            self._check(present, patch.get("metadata", {}))
            changed = _merged(present, patch)
            if kind == JOB and changed["spec"]["template"] != present["spec"]["template"]:
                raise ClusterRejected("field is immutable", reason="Invalid", status=422)
            if subresource == "status":
                changed["spec"] = present.get("spec")
            elif "status" in present:
                changed["status"] = present["status"]
            return self._end(fault, self._store(key, changed, present))

    @override
    def replace(self, kind: ResourceKind, manifest: Manifest) -> Manifest:
        metadata = manifest["metadata"]
        key = _key(kind, metadata.get("namespace"), metadata["name"])
        with self._lock:
            fault = self._begin("replace", kind, metadata["name"])
            self._check(self._objects.get(key), metadata)
            return self._end(fault, self._store(key, manifest, self._objects.get(key)))

    @override
    def delete(
        self,
        kind: ResourceKind,
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str = "Background",
    ) -> bool:
        key = _key(kind, namespace, name)
        with self._lock:
            fault = self._begin("delete", kind, name)
            present = self._objects.get(key)
            if present is None:
                return False
            self._check(present, {"uid": uid, "resourceVersion": resource_version})
            self._drop(key)
            self._end(fault, {})
            return True

    @override
    def pod_log(
        self,
        name: str,
        *,
        namespace: str,
        container: str,
        tail_lines: int,
        limit_bytes: int,
        previous: bool = False,
    ) -> str | None:
        with self._lock:
            self._begin("log", POD)
            if _key(POD, namespace, name) not in self._objects:
                return None
            lines = self.logs.get(name, "").splitlines(keepends=True)
            return "".join(lines[-tail_lines:])[:limit_bytes]

    @override
    def version(self) -> str:
        with self._lock:
            self._begin("version", None)
            return "v1.36.3"

    def _begin(self, verb: str, kind: ResourceKind | None, name: str = "") -> Fault | None:
        is_beside = kind == EVENT and verb != "list"  # Events are written by a background thread.
        if self.on_call is not None and not is_beside:
            self.on_call(verb, kind)
        kinds = {kind} if is_beside else {None, kind}
        fault = next((f for f in self._faults if f.verb == verb and f.kind in kinds), None)
        if fault is not None:
            fault.times -= 1
            if fault.times <= 0:
                self._faults.remove(fault)
            if not fault.acts_first:
                raise fault.error
        if name and kind is not None and not is_beside:
            self.writes.append(f"{verb} {kind.kind} {name}")
        return fault

    def _end(self, fault: Fault | None, made: Manifest) -> Manifest:
        if fault is not None:
            raise fault.error
        return deepcopy(made)

    def _check(self, present: Manifest | None, wanted: Manifest) -> None:
        for field_ in ("uid", "resourceVersion"):
            if not wanted.get(field_):
                continue
            if present is None or present["metadata"][field_] != wanted[field_]:
                raise ClusterConflict(f"another {field_}", reason="Conflict", status=409)

    def _store(self, key: Key, manifest: Manifest, present: Manifest | None) -> Manifest:
        stored = deepcopy(manifest)
        old = (present or {}).get("metadata", {})
        generation = int(old.get("generation", 0))
        if present is None or present.get("spec") != stored.get("spec"):
            generation += 1
        self.version_number += 1
        stored["metadata"] = {
            "uid": str(uuid.uuid4()),
            "creationTimestamp": BORN,
            **{name: old[name] for name in ("uid", "creationTimestamp") if name in old},
            **{k: v for k, v in stored["metadata"].items() if k != "resourceVersion"},
            "generation": generation,
            "resourceVersion": str(self.version_number),
        }
        self._objects[key] = stored
        return stored

    def _drop(self, key: Key) -> None:
        gone = self._objects.pop(key, None)
        if gone is None:
            return
        self.version_number += 1
        uid = gone["metadata"]["uid"]
        owned = [
            other
            for other, found in self._objects.items()
            if any(r["uid"] == uid for r in found["metadata"].get("ownerReferences") or [])
        ]
        for other in owned:
            self._drop(other)


def _key(kind: ResourceKind, namespace: str | None, name: str) -> Key:
    return kind.plural, namespace or "" if kind.namespaced else "", name


def _as_put(pod: Manifest) -> Manifest:
    """Return a pod without the metadata that the cluster sets."""
    names = ("name", "namespace", "labels", "ownerReferences")
    return {**pod, "metadata": {name: pod["metadata"].get(name) for name in names}}


def _is_selected(found: Manifest, selector: str) -> bool:
    if not selector:
        return True
    name, _, value = selector.partition("=")
    labels = found["metadata"].get("labels") or {}
    return name in labels and (not value or labels[name] == value)


def _has_fields(found: Manifest, selector: str) -> bool:
    if not selector:
        return True
    path, _, value = selector.partition("=")
    at: object = found
    for key in path.split("."):
        at = at.get(key) if isinstance(at, dict) else None
    return at == value


def _merged(present: Manifest, patch: Manifest) -> Manifest:
    """Return `present` after a JSON merge patch (RFC 7386)."""
    merged = deepcopy(present)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            before = merged.get(name)
            merged[name] = _merged(before if isinstance(before, dict) else {}, value)
        else:
            merged[name] = deepcopy(value)
    return merged
