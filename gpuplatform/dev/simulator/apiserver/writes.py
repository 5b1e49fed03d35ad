"""The verbs create, update, patch and apply.

Each verb applies defaults, ownership and validation, and then commits the object unless it is
unchanged. The HTTP handler and the controllers call the same functions.
"""

from collections.abc import Callable
from typing import Any

from gpuplatform.dev.simulator.apiserver import errors
from gpuplatform.dev.simulator.apiserver.apply import apply, typed_error
from gpuplatform.dev.simulator.apiserver.builtins.admission import admit, keep_allocated
from gpuplatform.dev.simulator.apiserver.builtins.defaults import fill_defaults
from gpuplatform.dev.simulator.apiserver.builtins.metadata import metadata_errors
from gpuplatform.dev.simulator.apiserver.builtins.validation import validation_errors
from gpuplatform.dev.simulator.apiserver.custom import custom_errors
from gpuplatform.dev.simulator.apiserver.objects import Manifest, clone, json_type, new_uid, now
from gpuplatform.dev.simulator.apiserver.ownership import Owner, Path, record_update
from gpuplatform.dev.simulator.apiserver.patches import (
    json_patch,
    merge_patch,
    strategic_merge_patch,
)
from gpuplatform.dev.simulator.apiserver.resources import Registry, Resource
from gpuplatform.dev.simulator.apiserver.store import Entry, Store, entry_of
from gpuplatform.dev.simulator.apiserver.targets import (
    SERVER_OWNED,
    Options,
    Target,
    check_namespace,
    check_place,
    check_type,
    identify,
    read_object,
)

MERGE, JSON, STRATEGIC, APPLY = (
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
_FROM_OLD = (*SERVER_OWNED[:-1], "name", "namespace")
_WITH_GENERATION = {
    "Pod",
    "Deployment",
    "ReplicaSet",
    "Job",
    "PriorityClass",
    "NetworkPolicy",
    "CustomResourceDefinition",
}
_UNCONDITIONAL_REFUSED = {"leases", "customresourcedefinitions"}


class Writer:
    """The writer of objects of the kinds in `registry` to `store`."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self.store = store
        self.registry = registry

    def create(self, target: Target, body: Manifest, options: Options) -> Entry:
        """Create an object. If `target` has no name, the body must have a name or `generateName`.

        Raises:
            ApiError: 400 if the body is malformed; 403 or 404 if the namespace is terminating or
            does not
                exist; 409 if the object exists; 422 if the object is invalid.
        """
        resource = target.resource
        obj = self._read(resource, body, options)
        metadata = obj["metadata"]
        if metadata.get("resourceVersion"):
            raise errors.ApiError(
                500, "", "resourceVersion should not be set on objects to be created"
            )
        for name in SERVER_OWNED:
            metadata.pop(name, None)
        target = identify(target, metadata)
        check_namespace(self.store, self.registry, target)
        return self._insert(target, obj, options)

    def _insert(
        self, target: Target, obj: Manifest, options: Options, *, owned: bool = False
    ) -> Entry:
        resource, metadata = target.resource, obj["metadata"]
        metadata |= {"uid": new_uid(), "creationTimestamp": now(), "name": target.name}
        if resource.namespaced:
            metadata["namespace"] = target.namespace
        if resource.is_custom or resource.kind in _WITH_GENERATION:
            metadata["generation"] = 1
        if (
            resource.has_status and resource.kind != "Node"
        ):  # Kubelets register nodes with their status.
            obj.pop("status", None)
        fill_defaults(resource, obj)
        if not owned:
            record_update(obj, None, resource.schema, self._owner(target, options))
        admit(self.store, target, obj)
        self._check(target, obj, None)
        if self.store.get(target.key):
            raise errors.already_exists(resource, target.name)
        return self._commit(target, obj, options)

    def update(self, target: Target, body: Manifest, options: Options) -> Entry:
        """Replace an object, or only its status if `options.subresource` is `status`.

        Raises:
            ApiError: 400 if the body is malformed; 404 if the object does not exist; 409 if its
            version is
                outdated; 422 if the object is invalid.
        """
        old = self._require(target)
        return self._change(target, old, self._read(target.resource, body, options), options)

    def patch(self, target: Target, patch: Any, kind: str, options: Options) -> Entry:
        """Patch an object. A server-side apply creates the object if it does not exist.

        Raises:
            ApiError: 400 if the patch is malformed; 404 if the object does not exist; 409 if there
            is a
                conflict; 415 if the patch type is not supported; 422 if the result is invalid; 500
                if an apply contains an undeclared field.
        """
        if kind == APPLY:
            return self._apply(target, patch, options)
        old = self._require(target)
        result = _patched(old.object, patch, kind, target.resource)
        if not isinstance(result, dict):
            raise errors.bad_request("the patched document is not an object")
        if not target.resource.is_custom and result.get("kind") != target.resource.kind:
            detail = f'no kind "{result.get("kind")}" is registered at this path'
            field_error = errors.invalid_value("patch", result, detail)
            raise errors.invalid("", "", "", [field_error])
        return self._change(target, old, self._read(target.resource, result, options), options)

    def change(self, entry: Entry, edit: Callable[[Manifest], None], options: Options) -> Entry:
        """Commit a copy of the current object that `edit` has modified. For controllers.

        Raises:
            ApiError: 404 if the object does not exist; 409 if its version is outdated; 422 if the
            result
                is invalid.
        """
        resource = self.registry.require(entry.key[1], entry.key[0])
        target = Target(resource, *entry.key[2:])
        present = self._require(target)
        obj = clone(present.object)
        edit(obj)
        return self._change(target, present, obj, options)

    def _apply(self, target: Target, patch: Manifest, options: Options) -> Entry:
        resource = target.resource
        check_type(resource, patch)
        if not (patch.get("kind") and patch.get("apiVersion")):
            raise errors.bad_request(f"invalid object type: /, Kind={patch.get('kind') or ''}")
        if patch.get("metadata", {}).get("managedFields"):
            raise errors.bad_request("metadata.managedFields must be nil")
        applied = {**patch, "metadata": dict(patch.get("metadata") or {})}
        target = identify(target, applied["metadata"])
        field_error = typed_error(applied, resource.schema)
        if field_error:
            place = f"{applied['metadata'].get('namespace', '')}/{target.name}"
            about = f"{place}; {resource.api_version}, Kind={resource.kind}"
            message = f"failed to create typed patch object ({about}): {field_error}"
            raise errors.ApiError(500, "", message)
        entry = self.store.get(target.key)
        ignored = _ignored(resource, options.subresource)
        part = {name: value for name, value in applied.items() if name not in ignored}
        if entry is None:
            return self._apply_new(target, part, options)
        _check_preconditions(target, entry.object, applied["metadata"])
        for name in ("resourceVersion", "uid"):
            part["metadata"].pop(name, None)
        owner = self._owner(target, options, "Apply")
        merged = apply(entry.object, part, resource.schema, owner, force=options.force)
        obj = self._read(resource, merged, options, keeps_nulls=True)
        return self._change(target, entry, obj, options, owned=True)

    def _apply_new(self, target: Target, applied: Manifest, options: Options) -> Entry:
        resource, metadata = target.resource, applied["metadata"]
        if options.subresource:
            raise errors.not_found(resource, target.name)
        if metadata.get("uid") or metadata.get("resourceVersion"):
            why = (
                "uid mismatch: the provided object specified uid, and no existing object was found"
            )
            raise errors.conflict(resource, target.name, why)
        check_namespace(self.store, self.registry, target)
        owner = self._owner(target, options, "Apply")
        merged = apply(None, applied, resource.schema, owner, force=True)
        return self._insert(target, self._read(resource, merged, options), options, owned=True)

    def _change(
        self, target: Target, old: Entry, obj: Manifest, options: Options, *, owned: bool = False
    ) -> Entry:
        resource, metadata, before = target.resource, obj["metadata"], old.object["metadata"]
        if metadata.get("name", target.name) != target.name:
            raise errors.bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL"
                f" ({target.name})"
            )
        check_place(target, metadata)
        _check_version(target, old, metadata)
        for name in _FROM_OLD:
            metadata.pop(name, None)
            if name in before:
                metadata[name] = before[name]
        if not owned:
            metadata.pop("managedFields", None)
        obj = _with_ignored(obj, old.object, resource, options.subresource)
        fill_defaults(resource, obj)
        keep_allocated(obj, old.object)
        if resource.is_custom or "generation" in before:
            changed = _differs_in_spec(obj, old.object)
            obj["metadata"]["generation"] = before.get("generation", 1) + int(changed)
        if not owned:
            owner = self._owner(target, options)
            record_update(obj, old.object, resource.schema, owner)
        self._check(target, obj, old.object)
        obj["metadata"]["resourceVersion"] = before["resourceVersion"]
        if _is_same(obj, old.object):
            return old
        return self._commit(target, obj, options)

    def _commit(self, target: Target, obj: Manifest, options: Options) -> Entry:
        if options.dry_run:
            return entry_of(target.key, obj, self.store.version)
        if is_finished(obj):
            return self.store.remove(target.key, obj)
        return self.store.commit(target.key, obj)

    def _read(
        self, resource: Resource, body: Manifest, options: Options, *, keeps_nulls: bool = False
    ) -> Manifest:
        schema = self.registry.metadata_schema
        return read_object(resource, body, options, schema, keeps_nulls=keeps_nulls)

    def _require(self, target: Target) -> Entry:
        entry = self.store.get(target.key)
        if entry is None:
            raise errors.not_found(target.resource, target.name)
        return entry

    def _check(self, target: Target, obj: Manifest, old: Manifest | None) -> None:
        resource = target.resource
        field_errors = metadata_errors(resource, obj, old)
        if resource.is_custom:
            field_errors = custom_errors(resource, obj, old, field_errors)
        else:
            field_errors += validation_errors(resource, obj, old)
        if field_errors:
            raise errors.invalid(resource.group, resource.kind, target.name, field_errors)

    def _owner(self, target: Target, options: Options, operation: str = "Update") -> Owner:
        resource, part = target.resource, options.subresource
        ignored = _ignored(resource, part)
        nothing: frozenset[Path] = frozenset()
        return Owner(
            options.manager, operation, resource.api_version, part, now(), nothing, ignored
        )


def _patched(live: Manifest, patch: Any, kind: str, resource: Resource) -> Any:
    if kind == JSON:
        return json_patch(live, patch)
    if not isinstance(patch, dict):
        start = "error decoding patch: " if kind == MERGE else ""
        detail = f"json: cannot unmarshal {json_type(patch)} into Go value of type"
        raise errors.bad_request(f"{start}{detail} map[string]interface {{}}")
    if kind == MERGE:
        return merge_patch(live, patch)
    return strategic_merge_patch(live, patch, resource.schema)


def _check_version(target: Target, old: Entry, metadata: Manifest) -> None:
    resource = target.resource
    if not metadata.get("resourceVersion") and (
        resource.is_custom or resource.plural in _UNCONDITIONAL_REFUSED
    ):
        detail = "must be specified for an update"
        field_error = errors.invalid_value("metadata.resourceVersion", 0, detail)
        raise errors.invalid(resource.group, resource.plural, target.name, [field_error])
    _check_preconditions(target, old.object, metadata)


def _check_preconditions(target: Target, old: Manifest, metadata: Manifest) -> None:
    uid, before = metadata.get("uid"), old["metadata"]
    if uid and uid != before["uid"]:
        why = (
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: {before['uid']}"
        )
        raise errors.conflict(target.resource, target.name, why)
    version = metadata.get("resourceVersion")
    if version and not version.isdecimal():
        detail = f'strconv.ParseUint: parsing "{version}": invalid syntax'
        raise errors.ApiError(500, "", detail)
    if version and version != before["resourceVersion"]:
        raise errors.conflict(target.resource, target.name)


def _ignored(resource: Resource, subresource: str) -> tuple[str, ...]:
    if subresource == "status":
        return ("spec", "data", "binaryData")
    return ("status",) if resource.has_status else ()


def _with_ignored(obj: Manifest, old: Manifest, resource: Resource, subresource: str) -> Manifest:
    """Return `obj` with the fields of `old` that the endpoint does not change."""
    if subresource == "status":
        managed = obj["metadata"].get("managedFields")
        kept = clone({name: part for name, part in old.items() if name != "status"})
        if managed is not None:
            kept["metadata"]["managedFields"] = managed
        if resource.kind == "Deployment" and "annotations" in obj["metadata"]:
            # As in Kubernetes, the revision of a Deployment is written together with its status.
            kept["metadata"]["annotations"] = obj["metadata"]["annotations"]
        return kept | ({"status": obj["status"]} if "status" in obj else {})
    if resource.has_status:
        obj.pop("status", None)
        if "status" in old:
            obj["status"] = clone(old["status"])
    return obj


def _differs_in_spec(obj: Manifest, old: Manifest) -> bool:
    outside = {"metadata", "status"}
    mine = {k: v for k, v in obj.items() if k not in outside}
    return mine != {k: v for k, v in old.items() if k not in outside}


def _is_same(obj: Manifest, old: Manifest) -> bool:
    """Return whether the objects differ only in the times of `managedFields`."""
    if any(obj.get(k) != old.get(k) for k in {*obj, *old} if k != "metadata"):
        return False
    mine, before = dict(obj["metadata"]), dict(old["metadata"])
    owners = [
        [
            {k: v for k, v in entry.items() if k != "time"}
            for entry in metadata.pop("managedFields", ())
        ]
        for metadata in (mine, before)
    ]
    return mine == before and owners[0] == owners[1]


def is_finished(obj: Manifest) -> bool:
    """Return whether a terminating object has no finalizers and no grace period left."""
    metadata = obj["metadata"]
    return (
        "deletionTimestamp" in metadata
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and not (obj["kind"] == "Namespace" and obj["spec"].get("finalizers"))
    )
