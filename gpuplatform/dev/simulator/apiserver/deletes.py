"""Deletion of objects: preconditions, propagation and graceful termination of pods."""

from dataclasses import dataclass
from datetime import timedelta

from gpuplatform import clock
from gpuplatform.dev.simulator.apiserver import errors
from gpuplatform.dev.simulator.apiserver.objects import Manifest, clone
from gpuplatform.dev.simulator.apiserver.store import Entry, Store
from gpuplatform.dev.simulator.apiserver.targets import Target
from gpuplatform.dev.simulator.apiserver.writes import is_finished

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""Finalizer that keeps a CustomResourceDefinition until its objects are deleted."""
ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_POLICIES = ("Background", "Foreground", "Orphan")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The options of a deletion. `None` selects the default of the object."""

    policy: str | None = None
    grace_seconds: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False

    @classmethod
    def read(cls, body: Manifest, query: Manifest) -> "DeleteOptions":
        """Read the options from the body or the query of a DELETE request.

        Raises:
            ApiError: 400 or 422 if the options are invalid.
        """
        policy = body.get("propagationPolicy") or query.get("propagationPolicy")
        orphan = body.get("orphanDependents")
        if body.get("kind", "DeleteOptions") != "DeleteOptions":
            raise errors.bad_request(f"{body['kind']} cannot be handled as DeleteOptions")
        if policy is not None and orphan is not None:
            detail = "orphanDependents and deletionPropagation cannot be both set"
            field_error = errors.invalid_value("propagationPolicy", policy, detail)
            raise errors.invalid("meta.k8s.io", "DeleteOptions", "", [field_error])
        if policy is None and orphan is not None:
            policy = "Orphan" if orphan else "Background"
        if policy is not None and policy not in _POLICIES:
            field_error = errors.unsupported(
                "propagationPolicy", policy, ("Foreground", "Background", "Orphan", "nil")
            )
            raise errors.invalid("meta.k8s.io", "DeleteOptions", "", [field_error])
        grace = body.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
        if isinstance(grace, str):
            grace = int(grace) if grace.lstrip("-").isdecimal() else "?"
        if grace is not None and not isinstance(grace, int):
            raise errors.bad_request("gracePeriodSeconds must be a number of seconds")
        conditions = body.get("preconditions") or {}
        dry = bool(body.get("dryRun") or query.get("dryRun"))
        return cls(policy, grace, conditions.get("uid"), conditions.get("resourceVersion"), dry)


@dataclass(frozen=True, slots=True)
class Deleted:
    """The result of a deletion: the object, and whether it was removed from the store."""

    entry: Entry
    is_removed: bool


def delete(store: Store, target: Target, options: DeleteOptions) -> Deleted:
    """Delete an object, or mark it as terminating.

    An object is marked if finalizers, a grace period or the content of a namespace delay the
    deletion.

    Raises:
        ApiError: 404 if the object does not exist; 409 if a precondition does not hold.
    """
    entry = store.get(target.key)
    if entry is None:
        raise errors.not_found(target.resource, target.name)
    _check(target, entry, options)
    if target.key[:2] == ("", "namespaces") and target.name in {
        "default",
        "kube-system",
        "kube-public",
    }:
        raise errors.forbidden(target.resource, target.name, "this namespace may not be deleted")
    obj = clone(entry.object)
    # For compatibility, the dependents of a Job are kept by default.
    default = "Orphan" if target.key[:2] == ("batch", "jobs") else None
    _set_finalizers(obj, options.policy or default)
    grace = _grace(obj, options.grace_seconds)
    _mark(obj, grace)
    if options.dry_run:
        return Deleted(entry, is_removed=is_finished(obj))
    if is_finished(obj):
        return Deleted(store.remove(target.key, obj), is_removed=True)
    if obj == entry.object:
        return Deleted(entry, is_removed=False)
    return Deleted(store.commit(target.key, obj), is_removed=False)


def _check(target: Target, entry: Entry, options: DeleteOptions) -> None:
    metadata = entry.object["metadata"]
    if options.uid is not None and options.uid != metadata["uid"]:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record"
            f" ({metadata['uid']}). The object might have been deleted and then recreated"
        )
        raise _conflict(target, why)
    version = options.resource_version
    if version is not None and version != metadata["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the"
            f" ResourceVersion in record ({metadata['resourceVersion']})."
            " The object might have been modified"
        )
        raise _conflict(target, why)


def _conflict(target: Target, why: str) -> errors.ApiError:
    """Return the error 409. As in Kubernetes, its message contains the kind, not the resource."""
    group = f".{target.resource.group}" if target.resource.group else ""
    error = errors.conflict(target.resource, target.name, why)
    about = f'{target.resource.kind}{group} "{target.name}"'
    error.status["message"] = f"Operation cannot be fulfilled on {about}: {why}"
    return error


def _set_finalizers(obj: Manifest, policy: str | None) -> None:
    if policy is None:
        return
    finalizers = [
        f for f in obj["metadata"].get("finalizers", ()) if f not in {ORPHAN, FOREGROUND}
    ]
    if policy != "Background":
        finalizers.append(ORPHAN if policy == "Orphan" else FOREGROUND)
    if finalizers:
        obj["metadata"]["finalizers"] = finalizers
    else:
        obj["metadata"].pop("finalizers", None)


def _grace(obj: Manifest, requested: int | None) -> int:
    """Return the grace period in seconds. It is 0 except for pods on a node."""
    if obj["kind"] != "Pod" or not obj["spec"].get("nodeName"):
        return 0
    if obj.get("status", {}).get("phase") in {"Succeeded", "Failed"}:
        return 0
    grace = (
        obj["spec"].get("terminationGracePeriodSeconds", 30) if requested is None else requested
    )
    return 1 if grace < 0 else int(grace)


def _mark(obj: Manifest, grace: int) -> None:
    metadata = obj["metadata"]
    left = metadata.get("deletionGracePeriodSeconds")
    if "deletionTimestamp" in metadata and left is not None and grace >= left:
        return
    if obj["kind"] == "Namespace":
        obj["status"]["phase"] = "Terminating"
    elif obj["kind"] == "CustomResourceDefinition":
        metadata["finalizers"] = [*metadata.get("finalizers", ()), CLEANUP]
    ends = clock.now() + timedelta(seconds=grace)
    metadata |= {"deletionTimestamp": clock.rfc3339(ends), "deletionGracePeriodSeconds": grace}
    if "generation" in metadata:
        metadata["generation"] += 1
