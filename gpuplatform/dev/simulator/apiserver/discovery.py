"""The discovery and OpenAPI documents, which are generated from the registry."""

from typing import Any, TypeAlias

from gpuplatform.dev.simulator.apiserver.errors import no_such_path
from gpuplatform.dev.simulator.apiserver.resources import Registry, Resource
from gpuplatform.dev.simulator.apiserver.schema import INT_OR_STRING, PRESERVE, Schema

Document: TypeAlias = dict[str, Any]

_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_STATUS_VERBS = ["get", "patch", "update"]
VERSION: Document = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.0+simulator",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "simulator",
}


def root(registry: Registry, path: str) -> Document | None:
    """Return the discovery document at `path`, such as /api, /apis/<group> or /api/v1."""
    match path.strip("/").split("/"):
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            groups = sorted({r.group for r in registry if r.group})
            listed = [_group(registry, group) for group in groups]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
        case ["apis", group] if any(r.group == group for r in registry):
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(registry, group)}
        case ["api", version]:
            return _resources(registry, "", version)
        case ["apis", group, version]:
            return _resources(registry, group, version)
        case _:
            return None


def _group(registry: Registry, group: str) -> Document:
    versions = sorted({r.version for r in registry if r.group == group})
    listed = [{"groupVersion": f"{group}/{v}", "version": v} for v in versions]
    return {"name": group, "versions": listed, "preferredVersion": listed[0]}


def _resources(registry: Registry, group: str, version: str) -> Document | None:
    found = [r for r in registry if (r.group, r.version) == (group, version)]
    if not found:
        return None
    listed = [entry for resource in found for entry in _entries(resource)]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": found[0].api_version,
        "resources": listed,
    }


def _entries(resource: Resource) -> list[Document]:
    main: Document = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": _VERBS,
    }
    if resource.short_names:
        main["shortNames"] = list(resource.short_names)
    if resource.categories:
        main["categories"] = list(resource.categories)
    return [main, *(_subresource(resource, name) for name in resource.subresources)]


def _subresource(resource: Resource, name: str) -> Document:
    entry: Document = {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": _STATUS_VERBS,
    }
    if name == "scale":
        entry |= {"kind": "Scale", "group": "autoscaling", "version": "v1"}
    elif name == "binding":
        entry |= {"kind": "Binding", "verbs": ["create"]}
    elif name == "eviction":
        entry |= {"kind": "Eviction", "group": "policy", "version": "v1", "verbs": ["create"]}
    elif name == "finalize":
        entry["verbs"] = ["update"]
    return entry


def openapi_index(registry: Registry, version: int) -> Document:
    """Return the index of OpenAPI documents at /openapi/v3."""
    paths = sorted({_path(r) for r in registry})
    url = "/openapi/v3/{}?hash={}"
    return {"paths": {p: {"serverRelativeURL": url.format(p, version)} for p in paths}}


def _path(resource: Resource) -> str:
    return f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"


def openapi(registry: Registry, path: str) -> Document:
    """Return the OpenAPI v3 document of one group and version.

    It contains the schemas of objects and the parameters of writes.

    Raises:
        ApiError: 404 if the group or version is not served.
    """
    found = [r for r in registry if _path(r) == path]
    if not found:
        raise no_such_path()
    query = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
    paths: Document = {}
    schemas: Document = {}
    for resource in found:
        kind = {"group": resource.group, "kind": resource.kind, "version": resource.version}
        name = f"{resource.group or 'core'}.{resource.version}.{resource.kind}"
        root_schema = {k: v for k, v in resource.schema.items() if k != "x-type"}
        shown = _schema(root_schema, schemas)
        schemas[name] = shown | {"x-kubernetes-group-version-kind": [kind]}
        place = "namespaces/{namespace}/" if resource.namespaced else ""
        operation = {
            "parameters": [query],
            "responses": {},
            "x-kubernetes-group-version-kind": kind,
        }
        paths[f"/{path}/{place}{resource.plural}/{{name}}"] = {
            verb: {**operation, "x-kubernetes-action": verb} for verb in ("get", "patch", "put")
        }
    info = {"title": "Kubernetes, simulated", "version": VERSION["gitVersion"]}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _schema(schema: Schema, named: Document) -> Schema:
    """Return the published form of `schema`.

    Named types are added to `named` and replaced with references.
    """
    name = schema.get("x-type")
    if name:
        if name not in named:
            named[name] = {}
            named[name] = _schema({k: v for k, v in schema.items() if k != "x-type"}, named)
        return {"$ref": f"#/components/schemas/{name}"}
    public = dict(schema)
    if schema.get("type") == "quantity":
        public["type"] = "string"
    elif schema.get(INT_OR_STRING):
        public |= {"oneOf": [{"type": "integer"}, {"type": "string"}]}
    elif not schema.get("type") and schema.get(PRESERVE):
        public["type"] = "object"
    below = (
        word for word in ("items", "additionalProperties") if isinstance(schema.get(word), dict)
    )
    public |= {word: _schema(schema[word], named) for word in below}
    if "properties" in schema:
        public["properties"] = {k: _schema(v, named) for k, v in schema["properties"].items()}
    return public
