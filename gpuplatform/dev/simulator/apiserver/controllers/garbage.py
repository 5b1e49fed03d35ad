"""The garbage collector: background, foreground and orphan propagation by owner references."""

from typing_extensions import override

from gpuplatform.dev.simulator.apiserver.controllers.loop import Controller
from gpuplatform.dev.simulator.apiserver.deletes import FOREGROUND, ORPHAN, DeleteOptions, delete
from gpuplatform.dev.simulator.apiserver.objects import Manifest
from gpuplatform.dev.simulator.apiserver.store import Change, Entry, Key
from gpuplatform.dev.simulator.apiserver.targets import Options, Target

_MANAGER = Options(manager="kube-controller-manager")


class GarbageCollector(Controller):
    """The controller that deletes objects whose owners no longer exist."""

    @override
    def observe(self, change: Change) -> None:
        metadata = change.entry.object["metadata"]
        if change.type != "DELETED":
            if metadata.get("ownerReferences") or "deletionTimestamp" in metadata:
                self.add(change.entry.key)
            return
        for key in self.store.dependents.get(metadata["uid"], ()):
            self.add(key)
        for reference in metadata.get("ownerReferences", ()):
            owner = self.store.by_uid.get(reference["uid"])
            if owner:
                self.add(owner)

    @override
    def sync(self, key: Key) -> None:
        entry = self.store.get(key)
        if entry is None:
            return
        metadata = entry.object["metadata"]
        if "deletionTimestamp" in metadata:
            finalizers = metadata.get("finalizers", ())
            if ORPHAN in finalizers:
                self._orphan(entry)
            elif FOREGROUND in finalizers:
                self._delete_dependents(entry)
        elif metadata.get("ownerReferences"):
            self._check_owners(entry)

    def _orphan(self, entry: Entry) -> None:
        uid = entry.object["metadata"]["uid"]
        for dependent in self.store.owned(uid):
            self._drop_references(dependent, {uid})
        self._drop_finalizer(entry, ORPHAN)

    def _delete_dependents(self, entry: Entry) -> None:
        uid = entry.object["metadata"]["uid"]
        dependents = self.store.owned(uid)
        if not any(_blocks(dependent.object, uid) for dependent in dependents):
            self._drop_finalizer(entry, FOREGROUND)
            return
        for dependent in dependents:
            if "deletionTimestamp" not in dependent.object["metadata"]:
                self._check_owners(dependent)

    def _check_owners(self, entry: Entry) -> None:
        metadata = entry.object["metadata"]
        states = {r["uid"]: self._state(entry, r) for r in metadata["ownerReferences"]}
        if "present" in states.values():
            lost = {uid for uid, state in states.items() if state != "present"}
            if lost:
                self._drop_references(entry, lost)
            return
        waits = "waiting" in states.values() and bool(self.store.dependents.get(metadata["uid"]))
        finalizers = metadata.get("finalizers", ())
        policy = "Foreground" if waits or FOREGROUND in finalizers else "Background"
        if ORPHAN in finalizers:
            policy = "Orphan"
        options = DeleteOptions(policy=policy, uid=metadata["uid"])
        delete(self.store, self._target(entry), options)

    def _state(self, entry: Entry, reference: Manifest) -> str:
        """Return the state of an owner: `present`, `absent`, or `waiting` for its dependents."""
        key = self.store.by_uid.get(reference["uid"])
        owner = self.store.get(key) if key else None
        if owner is None or owner.key[2] not in {"", entry.key[2]}:
            return "absent"
        same = (owner.object["kind"], owner.key[3]) == (reference["kind"], reference["name"])
        if not same:
            return "absent"
        metadata = owner.object["metadata"]
        deleting = "deletionTimestamp" in metadata and FOREGROUND in metadata.get("finalizers", ())
        return "waiting" if deleting else "present"

    def _drop_references(self, entry: Entry, uids: set[str]) -> None:
        def edit(obj: Manifest) -> None:
            kept = [r for r in obj["metadata"]["ownerReferences"] if r["uid"] not in uids]
            obj["metadata"]["ownerReferences"] = kept
            if not kept:
                del obj["metadata"]["ownerReferences"]

        self.writer.change(entry, edit, _MANAGER)

    def _drop_finalizer(self, entry: Entry, finalizer: str) -> None:
        def edit(obj: Manifest) -> None:
            obj["metadata"]["finalizers"].remove(finalizer)

        self.writer.change(entry, edit, _MANAGER)

    def _target(self, entry: Entry) -> Target:
        resource = self.writer.registry.require(entry.key[1], entry.key[0])
        return Target(resource, *entry.key[2:])


def _blocks(dependent: Manifest, uid: str) -> bool:
    references = dependent["metadata"].get("ownerReferences", ())
    return any(r["uid"] == uid and r.get("blockOwnerDeletion") for r in references)
