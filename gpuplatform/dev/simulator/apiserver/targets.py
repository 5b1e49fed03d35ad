"""The target and the options of a write, and checks of the request body against the target."""

from dataclasses import dataclass, field

from gpuplatform.dev.simulator.apiserver import errors
from gpuplatform.dev.simulator.apiserver.decode import Decoder
from gpuplatform.dev.simulator.apiserver.objects import Manifest, clone, random_suffix
from gpuplatform.dev.simulator.apiserver.resources import Registry, Resource
from gpuplatform.dev.simulator.apiserver.schema import Schema, drop_nulls, prune
from gpuplatform.dev.simulator.apiserver.store import Key, Store

SERVER_OWNED = (
    *("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
    *("generation", "selfLink", "managedFields"),
)
"""Metadata fields that only the server sets."""


@dataclass(slots=True)
class Options:
    """The options of a write. The writer adds `warnings`."""

    manager: str = "unknown"
    dry_run: bool = False
    force: bool = False
    validation: str = "Warn"
    subresource: str = ""
    repeated: list[str] = field(default_factory=list)
    """Paths of fields that occur more than once in the body."""
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Target:
    """The object that a write targets."""

    resource: Resource
    namespace: str
    name: str

    @property
    def key(self) -> Key:
        """The key of the object in the store."""
        return (*self.resource.key, self.namespace, self.name)


def read_object(
    resource: Resource,
    body: Manifest,
    options: Options,
    metadata_schema: Schema,
    *,
    keeps_nulls: bool,
) -> Manifest:
    """Return a copy of `body` with checked types and without unknown fields.

    Unknown fields become warnings.

    `keeps_nulls` preserves nulls of fields that are not nullable, so that validation rejects them.

    Raises:
        ApiError: 400 if the body has another kind, a wrong type, or unknown fields with strict
            validation.
    """
    check_type(resource, body)
    decoder = Decoder(resource.kind, resource.api_version)
    if resource.is_custom:
        obj = clone(body)
        if not keeps_nulls:
            drop_nulls(obj, resource.schema)
        unknown = prune(obj, resource.schema)
        metadata = obj.get("metadata") or {}
        obj["metadata"] = decoder.clean(metadata, metadata_schema)
        unknown += [f"metadata.{path}" for path in decoder.unknown]
    else:
        obj = decoder.clean(body, resource.schema)
        obj.setdefault("metadata", {})
        unknown = decoder.unknown
    obj = {"apiVersion": resource.api_version, "kind": resource.kind} | obj
    field_errors = [f'duplicate field "{path}"' for path in options.repeated]
    field_errors += [f'unknown field "{path}"' for path in sorted(unknown)]
    if field_errors and options.validation == "Strict":
        kind = resource.kind
        start = f'{kind} in version "{resource.version}" cannot be handled as a {kind}'
        raise errors.bad_request(f"{start}: strict decoding error: {', '.join(field_errors)}")
    if options.validation == "Warn":
        options.warnings += field_errors
    return obj


def check_type(resource: Resource, body: Manifest) -> None:
    """Check the kind of a body. Objects of built-in kinds can omit `kind` and `apiVersion`.

    Raises:
        ApiError: 400 if the kind or version does not match the path.
    """
    kind, version = body.get("kind"), body.get("apiVersion", "")
    if resource.is_custom and not kind:
        raise errors.bad_request("Object 'Kind' is missing in the body")
    if version != resource.api_version and (version or resource.is_custom):
        raise errors.bad_request(
            f"the API version in the data ({version}) does not match the expected API version"
            f" ({resource.api_version})"
        )
    if kind and kind != resource.kind and resource.is_custom:
        field_error = errors.invalid_value("kind", kind, f"must be {resource.kind}")
        name = (body.get("metadata") or {}).get("name", "")
        raise errors.invalid(resource.group, kind, name, [field_error])
    if kind and kind != resource.kind:
        raise errors.bad_request(
            f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}:'
            f' no kind "{kind}" is registered for version "{resource.api_version}" at this path'
        )


def identify(target: Target, metadata: Manifest) -> Target:
    """Return `target` with the name of the object or a generated name.

    Raises:
        ApiError: 400 if body and path have different names; 422 if neither has a name.
    """
    check_place(target, metadata)
    name = metadata.get("name") or ""
    if target.name and name and name != target.name:
        raise errors.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        )
    name = name or target.name
    if not name and metadata.get("generateName"):
        name = metadata["generateName"] + random_suffix()
    if not name:
        field_error = errors.required("metadata.name", "name or generateName is required")
        raise errors.invalid(target.resource.group, target.resource.kind, "", [field_error])
    return Target(target.resource, target.namespace, name)


def check_place(target: Target, metadata: Manifest) -> None:
    """Check that the object and the path have the same namespace.

    Raises:
        ApiError: 400 if the namespaces differ.
    """
    namespace = metadata.get("namespace", "")
    if target.resource.namespaced and namespace not in {"", target.namespace}:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def check_namespace(store: Store, registry: Registry, target: Target) -> None:
    """Check that the namespace of a new object exists and is not terminating.

    Raises:
        ApiError: 404 if the namespace does not exist; 403 if it is terminating.
    """
    if not target.resource.namespaced:
        return
    entry = store.get(("", "namespaces", "", target.namespace))
    if entry is None:
        raise errors.not_found(registry.require("namespaces"), target.namespace)
    if "deletionTimestamp" not in entry.object["metadata"]:
        return
    state = "is being terminated"
    why = f"unable to create new content in namespace {target.namespace} because it {state}"
    error = errors.forbidden(target.resource, target.name, why)
    detail = f"namespace {target.namespace} {state}"
    cause = {"reason": "NamespaceTerminating", "message": detail, "field": "metadata.namespace"}
    error.status["details"]["causes"] = [cause]
    raise error
