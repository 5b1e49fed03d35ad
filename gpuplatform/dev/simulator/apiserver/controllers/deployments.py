"""The Deployment controller, with the strategies Recreate and RollingUpdate."""

import hashlib

from typing_extensions import override

from gpuplatform.dev.simulator.apiserver.controllers.events import record_event
from gpuplatform.dev.simulator.apiserver.controllers.loop import (
    MANAGER,
    Controller,
)
from gpuplatform.dev.simulator.apiserver.controllers.progress import (
    deployment_status,
    next_deadline,
)
from gpuplatform.dev.simulator.apiserver.controllers.replicas import (
    DEPLOYMENTS,
    PODS,
    REPLICA_SETS,
    add_owners,
    adopt,
    children,
    may_be_adopted,
    reference_to,
)
from gpuplatform.dev.simulator.apiserver.controllers.rollout import (
    Bounds,
    Size,
    new_size,
    old_sizes,
)
from gpuplatform.dev.simulator.apiserver.deletes import DeleteOptions, delete
from gpuplatform.dev.simulator.apiserver.objects import Manifest, clone, controller_of, to_bytes
from gpuplatform.dev.simulator.apiserver.store import Change, Entry, Key
from gpuplatform.dev.simulator.apiserver.targets import Options, Target

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_NOT_COPIED = {"kubectl.kubernetes.io/last-applied-configuration", REVISION}
_SOURCE = "deployment-controller"


class Deployments(Controller):
    """The controller that creates and scales a ReplicaSet for each pod template."""

    @override
    def observe(self, change: Change) -> None:
        entry = change.entry
        if entry.key[:2] == DEPLOYMENTS:
            self.add(entry.key, adopts=change.before is None)
        elif entry.key[:2] == REPLICA_SETS:
            self._observe_replica_set(entry.object, is_adoptable=may_be_adopted(change))
        elif entry.key[:2] == PODS and change.type == "DELETED":
            owner = controller_of(entry.object) or {}
            replica_set = self.store.get((*REPLICA_SETS, entry.key[2], owner.get("name", "")))
            if replica_set:
                self._observe_replica_set(replica_set.object, is_adoptable=False)

    def _observe_replica_set(self, replica_set: Manifest, *, is_adoptable: bool) -> None:
        add_owners(self, replica_set, DEPLOYMENTS, "Deployment", is_adoptable=is_adoptable)

    @override
    def sync(self, key: Key) -> None:
        entry = self.store.get(key)
        if entry is None:
            return
        if self.pop_adoption(key):
            adopt(self.writer, entry, REPLICA_SETS)
        found = children(self.store, entry, REPLICA_SETS)
        if "deletionTimestamp" not in entry.object["metadata"]:
            self._roll(entry, found)
        self._report(key)

    def _roll(self, entry: Entry, found: list[Entry]) -> None:
        new, old = _split(entry.object, found)
        if entry.object["spec"].get("paused"):
            if new or len(old) == 1:
                self._scale(entry, new or old[0], entry.object["spec"]["replicas"])
        elif entry.object["spec"]["strategy"]["type"] == "Recreate":
            self._recreate(entry, new, old)
        else:
            self._rolling_update(entry, new, old)

    def _recreate(self, entry: Entry, new: Entry | None, old: list[Entry]) -> None:
        for replica_set in old:
            self._scale(entry, replica_set, 0)
        if any(self._has_running_pods(replica_set) for replica_set in old):
            return
        desired = entry.object["spec"]["replicas"]
        new = self._ensure(entry, new, old, desired)
        self._scale(entry, new, desired)

    def _has_running_pods(self, replica_set: Entry) -> bool:
        pods = self.store.owned(replica_set.object["metadata"]["uid"])
        ended = {"Succeeded", "Failed"}
        return any(p.object.get("status", {}).get("phase") not in ended for p in pods)

    def _rolling_update(self, entry: Entry, new: Entry | None, old: list[Entry]) -> None:
        bounds = Bounds.of(entry.object)
        sizes = [_size(replica_set) for replica_set in old]
        start = new_size(bounds, Size("", 0, 0), sizes)
        new = self._ensure(entry, new, old, start)
        new = self._scale(entry, new, new_size(bounds, _size(new), sizes))
        by_name = {replica_set.key[3]: replica_set for replica_set in old}
        for name, replicas in old_sizes(bounds, _size(new), sizes).items():
            self._scale(entry, by_name[name], replicas)

    def _scale(self, entry: Entry, replica_set: Entry, replicas: int) -> Entry:
        before = replica_set.object["spec"]["replicas"]
        if before == replicas:
            return replica_set

        def resize(obj: Manifest) -> None:
            obj["spec"]["replicas"] = replicas
            obj["metadata"].setdefault("annotations", {}).update(_targets(entry))

        changed = self.writer.change(replica_set, resize, Options(manager=MANAGER))
        direction = "up" if replicas > before else "down"
        name = replica_set.key[3]
        message = f"Scaled {direction} replica set {name} from {before} to {replicas}"
        record_event(self.writer, entry, "Normal", ("ScalingReplicaSet", message), _SOURCE)
        return changed

    def _ensure(self, entry: Entry, new: Entry | None, old: list[Entry], replicas: int) -> Entry:
        """Return the ReplicaSet of the current template, marked as the latest revision.

        The ReplicaSet is created if it does not exist.
        """
        revision = 1 + max((_revision(replica_set.object) for replica_set in old), default=0)
        if new is None:
            new = self._create(entry, revision, replicas)
        elif _revision(new.object) < revision:
            self._annotate(new, revision)
        return self.store.get(new.key) or new

    def _annotate(self, entry: Entry, revision: int) -> None:
        def annotate(obj: Manifest) -> None:
            obj["metadata"].setdefault("annotations", {})[REVISION] = str(revision)

        self.writer.change(entry, annotate, Options(manager=MANAGER))

    def _create(self, entry: Entry, revision: int, replicas: int) -> Entry:
        template = clone(entry.object["spec"]["template"])
        digest = template_hash(template)
        labels = template["metadata"].setdefault("labels", {})
        labels[HASH_LABEL] = digest
        selector = clone(entry.object["spec"]["selector"])
        selector.setdefault("matchLabels", {})[HASH_LABEL] = digest
        annotations = entry.object["metadata"].get("annotations", {})
        copied = {k: v for k, v in annotations.items() if k not in _NOT_COPIED}
        name = f"{entry.key[3]}-{digest}"
        body = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": name,
                "namespace": entry.key[2],
                "labels": dict(labels),
                "annotations": {**copied, REVISION: str(revision), **_targets(entry)},
                "ownerReferences": [reference_to(entry)],
            },
            "spec": {
                "replicas": replicas,
                "minReadySeconds": entry.object["spec"].get("minReadySeconds"),
                "selector": selector,
                "template": template,
            },
        }
        target = Target(self.writer.registry.require("replicasets", "apps"), entry.key[2], name)
        created = self.writer.create(target, body, Options(manager=MANAGER))
        if replicas:
            message = f"Scaled up replica set {name} from 0 to {replicas}"
            record_event(self.writer, entry, "Normal", ("ScalingReplicaSet", message), _SOURCE)
        return created

    def _report(self, key: Key) -> None:
        entry = self.store.get(key)
        if entry is None:
            return
        new, old = _split(entry.object, children(self.store, entry, REPLICA_SETS))
        status = deployment_status(
            entry.object, new.object if new else None, [e.object for e in old]
        )
        revision = str(_revision(new.object)) if new else ""

        def report(deployment: Manifest) -> None:
            deployment["status"] = status
            if revision:
                deployment["metadata"].setdefault("annotations", {})[REVISION] = revision

        self.writer.change(entry, report, Options(manager=MANAGER, subresource="status"))
        deadline = next_deadline(entry.object, status)
        if deadline:
            self.add_at(key, deadline)
        elif new and new.object["spec"]["replicas"] == status.get("availableReplicas", 0):
            self._clean_up(entry, old)

    def _clean_up(self, entry: Entry, old: list[Entry]) -> None:
        limit = entry.object["spec"]["revisionHistoryLimit"]
        idle = [
            e
            for e in old
            if not e.object["spec"]["replicas"] and not e.object["status"].get("replicas", 0)
        ]
        for replica_set in sorted(idle, key=lambda e: _revision(e.object))[
            : max(len(idle) - limit, 0)
        ]:
            target = Target(
                self.writer.registry.require("replicasets", "apps"), *replica_set.key[2:]
            )
            delete(self.store, target, DeleteOptions())


def _targets(deployment: Entry) -> dict[str, str]:
    """Return the annotations of a ReplicaSet, with the replica counts of its Deployment."""
    bounds = Bounds.of(deployment.object)
    prefix = "deployment.kubernetes.io/"
    maximum = bounds.desired + bounds.surge
    return {
        f"{prefix}desired-replicas": str(bounds.desired),
        f"{prefix}max-replicas": str(maximum),
    }


def template_hash(template: Manifest) -> str:
    """Return a hash of a pod template. It consists of digits and consonants, as in Kubernetes."""
    number = int.from_bytes(hashlib.sha256(to_bytes(_sorted(template))).digest()[:6])
    letters = []
    for _ in range(10):
        number, rest = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[rest])
    return "".join(letters)


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _split(deployment: Manifest, found: list[Entry]) -> tuple[Entry | None, list[Entry]]:
    """Return the ReplicaSet of the current template, and the other ReplicaSets from old to new."""
    ordered = sorted(
        found, key=lambda e: (e.object["metadata"]["creationTimestamp"], _revision(e.object))
    )
    new = next((e for e in ordered if _has_template(e.object, deployment)), None)
    return new, [e for e in ordered if e is not new]


def _has_template(replica_set: Manifest, deployment: Manifest) -> bool:
    mine = clone(replica_set["spec"]["template"])
    mine["metadata"].get("labels", {}).pop(HASH_LABEL, None)
    return bool(mine == deployment["spec"]["template"])


def _revision(obj: Manifest) -> int:
    text = obj["metadata"].get("annotations", {}).get(REVISION, "0")
    return int(text) if text.isdecimal() else 0


def _size(replica_set: Entry) -> Size:
    obj = replica_set.object
    available = obj.get("status", {}).get("availableReplicas", 0)
    return Size(replica_set.key[3], obj["spec"]["replicas"], available)
