"""Owned objects, adoption and pod states, which Deployments and ReplicaSets share."""

from datetime import datetime, timedelta

from gpuplatform import clock
from gpuplatform.dev.simulator.apiserver.controllers.loop import MANAGER, Controller
from gpuplatform.dev.simulator.apiserver.objects import Manifest, condition, controller_of
from gpuplatform.dev.simulator.apiserver.resources import GroupPlural
from gpuplatform.dev.simulator.apiserver.selectors import labels_match
from gpuplatform.dev.simulator.apiserver.store import Change, Entry, Store
from gpuplatform.dev.simulator.apiserver.targets import Options
from gpuplatform.dev.simulator.apiserver.writes import Writer

PODS: GroupPlural = ("", "pods")
REPLICA_SETS: GroupPlural = ("apps", "replicasets")
DEPLOYMENTS: GroupPlural = ("apps", "deployments")


def reference_to(owner: Entry) -> Manifest:
    """Return an owner reference to `owner` with `controller: true`."""
    obj = owner.object
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def children(store: Store, owner: Entry, kind: GroupPlural) -> list[Entry]:
    """Return the objects of kind `resource` that `owner` controls."""
    uid = owner.object["metadata"]["uid"]
    return [e for e in store.owned(uid) if e.key[:2] == kind and _controls(uid, e)]


def _controls(uid: str, entry: Entry) -> bool:
    return (controller_of(entry.object) or {}).get("uid") == uid


def add_owners(
    controller: Controller, child: Manifest, owners: GroupPlural, kind: str, *, is_adoptable: bool
) -> None:
    """Enqueue the controller of `child` if it is an object of `kind`, with the plural `owners`.

    If `child` has no controller and `is_adoptable` is true, enqueue all objects that can adopt it.
    """
    owner, namespace = controller_of(child), child["metadata"]["namespace"]
    if owner is not None:
        if owner["kind"] == kind:
            controller.add((*owners, namespace, owner["name"]))
        return
    if not is_adoptable:
        return
    labels = child["metadata"].get("labels", {})
    for entry in controller.store.find(owners, namespace):
        if labels_match(labels, entry.object["spec"]["selector"]):
            controller.add(entry.key, adopts=True)


def adopt(writer: Writer, owner: Entry, kind: GroupPlural) -> None:
    """Make `owner` the controller of objects that match its selector and have no controller."""
    if "deletionTimestamp" in owner.object["metadata"]:
        return
    selector = owner.object["spec"]["selector"]
    for entry in writer.store.uncontrolled(kind, owner.key[2]):
        metadata = entry.object["metadata"]
        if "deletionTimestamp" in metadata or not labels_match(
            metadata.get("labels", {}), selector
        ):
            continue
        owners = [*metadata.get("ownerReferences", ()), reference_to(owner)]

        def take(obj: Manifest, owners: list[Manifest] = owners) -> None:
            obj["metadata"]["ownerReferences"] = owners

        writer.change(entry, take, Options(manager=MANAGER))


def may_be_adopted(change: Change) -> bool:
    """Return whether a change makes an object without a controller eligible for adoption.

    This applies to new objects, changed labels and removed controllers.
    """
    if change.before is None:
        return change.type == "ADDED"
    now, before = change.entry.object["metadata"], change.before.object["metadata"]
    return (
        now.get("labels") != before.get("labels")
        or controller_of(change.before.object) is not None
    )


def is_active(pod: Manifest) -> bool:
    """Return whether a pod counts as a replica: it is not terminating, Succeeded or Failed."""
    ended = pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}
    return not ended and "deletionTimestamp" not in pod["metadata"]


def is_terminating(pod: Manifest) -> bool:
    """Return whether a pod is terminating, and its phase is not Succeeded or Failed."""
    ended = pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}
    return not ended and "deletionTimestamp" in pod["metadata"]


def is_ready(pod: Manifest) -> bool:
    """Return whether a pod is ready."""
    return condition(pod, "Ready").get("status") == "True"


def available_at(pod: Manifest, min_ready_seconds: int) -> datetime | None:
    """Return the time at which a ready pod becomes available, or `None` if it is not ready."""
    ready = condition(pod, "Ready")
    if ready.get("status") != "True":
        return None
    if not min_ready_seconds or not ready.get("lastTransitionTime"):
        return datetime.min.replace(tzinfo=clock.now().tzinfo)
    since = clock.parse_rfc3339(ready["lastTransitionTime"])
    return since + timedelta(seconds=min_ready_seconds)
