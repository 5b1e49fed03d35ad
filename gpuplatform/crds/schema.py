"""Builds a CustomResourceDefinition from a declared spec and status. Pure.

The schema contains what a structural schema can express: types, bounds, enums, required fields,
list keys, and the rules that the models declare with `cel` (`x-kubernetes-validations`). Grammars
beyond that stay in the models; the reconciler answers them with `InvalidSpec`. Called by
`export_crds` and `install_cluster`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from gpuplatform.formats.validations import VALIDATIONS
from gpuplatform.kube.kinds import CUSTOM_RESOURCE_DEFINITION, ResourceKind

CATEGORY: Final = "gpuplatform"
"""`kubectl get gpuplatform` lists every resource of the platform."""

_DROPPED: Final = frozenset({"title", "examples", "$defs"})
_METADATA: Final = {
    "apiVersion": {
        "type": "string",
        "description": "The versioned schema of this object: group and version.",
    },
    "kind": {"type": "string", "description": "The kind of this object."},
    "metadata": {"type": "object"},  # The API server refuses a description here.
}


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """One column of `kubectl get`."""

    name: str
    type: str
    json_path: str
    is_wide: bool = False
    """Whether only `kubectl get -o wide` shows it."""

    def manifest(self) -> dict[str, Any]:
        """Return the column as the CRD contains it."""
        column: dict[str, Any] = {
            "name": self.name,
            "type": self.type,
            "jsonPath": self.json_path,
        }
        return column | ({"priority": 1} if self.is_wide else {})


@dataclass(frozen=True, slots=True)
class Scale:
    """The paths of the `scale` subresource, which `kubectl scale` and autoscalers use."""

    replicas: str
    status_replicas: str
    selector: str

    def manifest(self) -> dict[str, str]:
        """Return the subresource as the CRD contains it."""
        return {
            "specReplicasPath": self.replicas,
            "statusReplicasPath": self.status_replicas,
            "labelSelectorPath": self.selector,
        }


@dataclass(frozen=True, slots=True)
class Presentation:
    """How `kubectl` and other clients address and list a kind."""

    short_names: Sequence[str]
    columns: Sequence[PrinterColumn]
    selectable_fields: Sequence[str]
    """JSON paths that `kubectl get --field-selector` accepts."""
    scale: Scale | None = None


def crd_manifest(
    kind: ResourceKind,
    *,
    spec: type[BaseModel],
    status: type[BaseModel],
    presentation: Presentation,
    rules: Sequence[Mapping[str, str]] = (),
) -> dict[str, Any]:
    """Return the CRD of `kind`: one version, served and stored, with a status subresource.

    `rules` are CEL rules on the whole object, as `cel` returns them.
    """
    scale = presentation.scale
    subresources: dict[str, Any] = {"status": {}}
    if scale:
        subresources["scale"] = scale.manifest()
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "subresources": subresources,
        "selectableFields": [{"jsonPath": path} for path in presentation.selectable_fields],
        "additionalPrinterColumns": [column.manifest() for column in presentation.columns],
        "schema": {"openAPIV3Schema": _object(spec, status, rules)},
    }
    return {
        "apiVersion": CUSTOM_RESOURCE_DEFINITION.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITION.kind,
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.kind.lower(),
                "shortNames": list(presentation.short_names),
                "categories": [CATEGORY],
            },
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [version],
        },
    }


def _object(
    spec: type[BaseModel], status: type[BaseModel], rules: Sequence[Mapping[str, str]]
) -> dict[str, Any]:
    schema = {
        "type": "object",
        "description": (spec.__doc__ or "").strip(),
        "required": ["spec"],
        "properties": {**_METADATA, "spec": structural(spec), "status": structural(status)},
    }
    return schema | ({VALIDATIONS: list(rules)} if rules else {})


def structural(model: type[BaseModel]) -> dict[str, Any]:
    """Return the structural schema of a model.

    Raises:
        ValueError: the model holds a union, which a structural schema cannot express.
    """
    schema = model.model_json_schema(by_alias=True)
    return _converted(schema, schema.get("$defs", {}))


def _converted(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    converted: dict[str, Any] = {}
    for key, value in _resolved(schema, definitions).items():
        match key:
            case "properties":
                converted[key] = {k: _converted(one, definitions) for k, one in value.items()}
            case "items":
                converted[key] = _without_defaults(_converted(value, definitions))
            case _:
                converted |= _keyword(key, value)
    return converted


def _without_defaults(item: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a list's item without defaults of its properties.

    `kubectl apply` compares lists as written, so a default inside one always looks like a change.
    """
    properties = {
        name: {key: value for key, value in schema.items() if key != "default"}
        for name, schema in item.get("properties", {}).items()
    }
    return item | ({"properties": properties} if properties else {})


def _keyword(key: str, value: Any) -> dict[str, Any]:
    """Return one keyword of JSON Schema as Kubernetes accepts it; empty if it does not."""
    match key:
        case "const":
            return {"enum": [value]}
        case "exclusiveMinimum" | "exclusiveMaximum":
            return {key.replace("exclusiveM", "m"): value, key: True}
        case "default" if value in (None, "", [], {}):
            return {}  # absent and empty are the same: nothing to fill in
        case "additionalProperties" if value is False:
            return {}  # the server prunes unknown fields
        case "x-kubernetes-list-map-keys":
            return {"x-kubernetes-list-type": "map", key: value}
        case _:
            return {key: value}


def _resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Inline the reference, replace a choice with null by `nullable`, drop what only documents."""
    found = {key: value for key, value in schema.items() if key not in _DROPPED}
    if reference := found.pop("$ref", None):
        target = definitions[reference.removeprefix("#/$defs/")]
        return _resolved({**target, **found}, definitions)
    if choice := found.pop("anyOf", None):
        options = [one for one in choice if one != {"type": "null"}]
        if len(options) != 1:
            msg = f"A structural schema cannot express a union: {choice}."
            raise ValueError(msg)
        return _resolved({**options[0], **found, "nullable": True}, definitions)
    return found
