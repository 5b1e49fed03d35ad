"""The served kinds: the built-in kinds and the kinds of CustomResourceDefinitions."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from gpuplatform.dev.simulator.apiserver.objects import Manifest
from gpuplatform.dev.simulator.apiserver.rules import RuleTree, root_schema, rule_tree
from gpuplatform.dev.simulator.apiserver.schema import Schema

GroupPlural: TypeAlias = tuple[str, str]
_FOLDER = Path(__file__).parent / "builtins"
NAME_COLUMN = {"name": "Name", "type": "string", "format": "name", "priority": 0}


@dataclass(frozen=True, slots=True)
class Resource:
    """A served kind. Each kind has exactly one version."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    schema: Schema
    is_custom: bool = False
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    selectable: tuple[str, ...] = ()
    columns: tuple[dict[str, Any], ...] = ()
    scale: Manifest | None = None
    """Paths of the scale subresource of a custom resource."""
    rules: RuleTree | None = None
    """Compiled validation rules of a custom resource."""

    @property
    def api_version(self) -> str:
        """The apiVersion, such as `apps/v1`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The qualified name, such as `deployments.apps`, or `pods` for the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def key(self) -> GroupPlural:
        """Group and plural, which are the key of the kind in the store."""
        return self.group, self.plural

    @property
    def has_status(self) -> bool:
        """Whether the kind has the subresource `status`."""
        return "status" in self.subresources

    @property
    def list_kind(self) -> str:
        """Kind of list objects, such as `PodList`."""
        return f"{self.kind}List"


class Registry:
    """The registry of served kinds, by group and plural."""

    def __init__(self) -> None:
        types = _types()
        self._resources: dict[GroupPlural, Resource] = {}
        for plural, facts in json.loads((_FOLDER / "kinds.json").read_text("utf-8")).items():
            self.add(_builtin(plural, facts, types))
        self.metadata_schema = types["ObjectMeta"]

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._resources.values())

    def add(self, resource: Resource) -> None:
        """Start serving a kind. It replaces a kind with the same group and plural."""
        self._resources[resource.key] = resource

    def drop(self, key: GroupPlural) -> None:
        """Stop serving a kind."""
        self._resources.pop(key, None)

    def find(self, group: str, plural: str) -> Resource | None:
        """Return the kind `plural` of `group`, or `None` if it is not served."""
        return self._resources.get((group, plural))

    def require(self, plural: str, group: str = "") -> Resource:
        """Return the kind `plural` of `group`, which must be served."""
        return self._resources[group, plural]


def _builtin(plural: str, facts: dict[str, Any], types: dict[str, Schema]) -> Resource:
    kind = facts["kind"]
    columns = (
        {"name": name, "type": kind_of_value, "format": "", "priority": priority, "source": source}
        for name, kind_of_value, priority, source in facts["columns"]
    )
    return Resource(
        group=facts.get("group", ""),
        version="v1",
        kind=kind,
        plural=plural,
        singular=facts.get("singular", kind.lower()),
        namespaced=facts.get("namespaced", True),
        schema=types[kind],
        short_names=tuple(facts.get("short", ())),
        categories=tuple(facts.get("categories", ())),
        subresources=tuple(facts.get("subresources", ())),
        selectable=tuple(facts.get("fields", ())),
        columns=(NAME_COLUMN | {"source": ".metadata.name"}, *columns),
    )


def _types() -> dict[str, Schema]:
    """Load the types of the built-in kinds and resolve their references."""
    types: dict[str, Schema] = json.loads((_FOLDER / "types.json").read_text("utf-8"))
    for name, schema in types.items():
        schema["x-type"] = name
        _link(schema, types)
    return types


def _link(schema: Schema, types: dict[str, Schema]) -> None:
    members = schema.get("properties", {})
    for name, sub in members.items():
        members[name] = _linked(sub, types)
    for word in ("items", "additionalProperties"):
        if word in schema:
            schema[word] = _linked(schema[word], types)


def _linked(schema: Schema, types: dict[str, Schema]) -> Schema:
    if "$ref" in schema:
        return types[schema["$ref"]]
    _link(schema, types)
    return schema


def custom_resource(definition: Manifest, metadata: Schema) -> Resource:
    """Return the kind that a CustomResourceDefinition declares."""
    spec = definition["spec"]
    names, version = spec["names"], spec["versions"][0]
    subresources = version.get("subresources", {})
    columns = version.get("additionalPrinterColumns") or [
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
    ]
    return Resource(
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        namespaced=spec["scope"] == "Namespaced",
        schema=_with_metadata(version["schema"]["openAPIV3Schema"], metadata),
        is_custom=True,
        short_names=tuple(names.get("shortNames", ())),
        categories=tuple(names.get("categories", ())),
        subresources=tuple(name for name in ("status", "scale") if name in subresources),
        selectable=tuple(f["jsonPath"].lstrip(".") for f in version.get("selectableFields", ())),
        columns=(NAME_COLUMN | {"source": ".metadata.name"}, *map(_column, columns)),
        scale=subresources.get("scale"),
        rules=rule_tree(root_schema(version["schema"]["openAPIV3Schema"])),
    )


def _column(declared: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": declared["name"],
        "type": declared["type"],
        "format": declared.get("format", ""),
        "priority": declared.get("priority", 0),
        "source": declared["jsonPath"],
    } | ({"description": declared["description"]} if "description" in declared else {})


def _with_metadata(schema: Schema, metadata: Schema) -> Schema:
    """Add the type of `metadata`, which ownership and patches need, to the schema of a CRD."""
    text = {"type": "string"}
    known = {"apiVersion": text, "kind": text, "metadata": metadata}
    return {**schema, "properties": {**schema.get("properties", {}), **known}}
