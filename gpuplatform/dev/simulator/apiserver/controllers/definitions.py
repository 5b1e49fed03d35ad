"""The controller of CustomResourceDefinitions: serves their kinds, and deletes their objects."""

from typing_extensions import override

from gpuplatform.dev.simulator.apiserver.controllers.loop import Controller
from gpuplatform.dev.simulator.apiserver.deletes import CLEANUP, DeleteOptions, delete
from gpuplatform.dev.simulator.apiserver.objects import Manifest, clone, now
from gpuplatform.dev.simulator.apiserver.resources import custom_resource
from gpuplatform.dev.simulator.apiserver.store import Change, Key
from gpuplatform.dev.simulator.apiserver.targets import Options, Target

_KIND = ("apiextensions.k8s.io", "customresourcedefinitions")


class Definitions(Controller):
    """The controller that serves the kinds of committed definitions and writes their status."""

    def _serve(self, definition: Manifest) -> None:
        metadata = self.writer.registry.metadata_schema
        self.writer.registry.add(custom_resource(definition, metadata))

    @override
    def observe(self, change: Change) -> None:
        key = change.entry.key
        if key[:2] == _KIND:
            spec = change.entry.object["spec"]
            if change.type == "DELETED":
                self.writer.registry.drop((spec["group"], spec["names"]["plural"]))
            else:
                self._serve(change.entry.object)
                self.add(key)
        elif change.type == "DELETED":
            owner = self.store.get((*_KIND, "", f"{key[1]}.{key[0]}"))
            if owner and "deletionTimestamp" in owner.object["metadata"]:
                self.add(owner.key)

    @override
    def sync(self, key: Key) -> None:
        entry = self.store.get(key)
        if entry is None:
            return
        if "deletionTimestamp" in entry.object["metadata"]:
            self._clear(key)
            return
        self.set_status(entry, _status(entry.object))

    def _clear(self, key: Key) -> None:
        entry = self.store.get(key)
        if entry is None:
            return
        spec = entry.object["spec"]
        resource = self.writer.registry.require(spec["names"]["plural"], spec["group"])
        objects = self.store.find(resource.key)
        for one in objects:
            if "deletionTimestamp" not in one.object["metadata"]:
                delete(self.store, Target(resource, *one.key[2:]), DeleteOptions())
        if not self.store.find(resource.key):
            self.writer.change(entry, _remove_finalizer, Options(manager="kube-apiserver"))


def _remove_finalizer(definition: Manifest) -> None:
    kept = [f for f in definition["metadata"].get("finalizers", ()) if f != CLEANUP]
    definition["metadata"]["finalizers"] = kept


def _status(definition: Manifest) -> Manifest:
    status: Manifest = clone(definition.get("status", {}))
    if "conditions" not in status:
        status["conditions"] = [
            _true("NamesAccepted", "NoConflicts", "no conflicts found"),
            _true("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ]
    status["acceptedNames"] = definition["spec"]["names"]
    status["storedVersions"] = [v["name"] for v in definition["spec"]["versions"]]
    return status


def _true(kind: str, reason: str, message: str) -> Manifest:
    explanation = {"reason": reason, "message": message}
    return {"type": kind, "status": "True", "lastTransitionTime": now(), **explanation}
