"""Builds a CustomResourceDefinition from the models of spec and status. Pure.

The schema contains the rules that a structural schema can express: types, bounds, enums, required
fields, list keys, and the CEL rules (`x-kubernetes-validations`) that the models declare with
`cel`. If a resource violates another rule of the models, the reconciler reports `InvalidSpec`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from gpuplatform.formats.names import DNS_LABEL, OWN_NAME_MAX
from gpuplatform.formats.validations import VALIDATIONS, cel
from gpuplatform.kube.kinds import CUSTOM_RESOURCE_DEFINITION, ResourceKind

CATEGORY: Final = "gpuplatform"
"""The category of all kinds, so that `kubectl get gpuplatform` lists them."""

_NAME_RULE: Final = cel(
    f"has(self.status) || (size(self.metadata.name) <= {OWN_NAME_MAX}"
    f" && self.metadata.name.matches('^{DNS_LABEL}$'))",
    f"metadata.name must be a DNS label of at most {OWN_NAME_MAX} characters.",
)
"""The rule for the names of new resources.

The API server drops the status of a new resource before it validates the resource. An existing
resource with an invalid name, which is older than the rule, must accept the status: the API server
validates a status update with the whole object.
"""

_DROPPED: Final = frozenset({"title", "examples", "$defs"})
_METADATA: Final = {
    "apiVersion": {
        "type": "string",
        "description": "Group and version of the schema of this object.",
    },
    "kind": {"type": "string", "description": "Kind of this object."},
    "metadata": {"type": "object"},  # The API server rejects a description here.
}


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """A column of `kubectl get`."""

    name: str
    type: str
    json_path: str
    is_wide: bool = False
    """Whether only `kubectl get -o wide` displays the column."""

    def manifest(self) -> dict[str, Any]:
        """Return the column in the format of a CRD."""
        column = {"name": self.name, "type": self.type, "jsonPath": self.json_path}
        return column | ({"priority": 1} if self.is_wide else {})


@dataclass(frozen=True, slots=True)
class Presentation:
    """The names, columns and fields of a kind for `kubectl` and other clients."""

    short_names: Sequence[str]
    columns: Sequence[PrinterColumn]
    selectable_fields: Sequence[str]
    """The JSON paths for `kubectl get --field-selector`."""
    scale: Mapping[str, str] | None = None
    """The `scale` subresource, which `kubectl scale` and autoscalers use."""


def crd_manifest(
    kind: ResourceKind,
    *,
    spec: type[BaseModel],
    status: type[BaseModel],
    presentation: Presentation,
) -> dict[str, Any]:
    """Return the CRD of `kind`, with one version and a status subresource."""
    subresources: dict[str, Any] = {"status": {}}
    if presentation.scale:
        subresources["scale"] = presentation.scale
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "subresources": subresources,
        "selectableFields": [{"jsonPath": path} for path in presentation.selectable_fields],
        "additionalPrinterColumns": [column.manifest() for column in presentation.columns],
        "schema": {"openAPIV3Schema": _object(spec, status)},
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


def _object(spec: type[BaseModel], status: type[BaseModel]) -> dict[str, Any]:
    return {
        "type": "object",
        "description": (spec.__doc__ or "").strip(),
        "required": ["spec"],
        "properties": {**_METADATA, "spec": structural(spec), "status": structural(status)},
        VALIDATIONS: [_NAME_RULE],
    }


def structural(model: type[BaseModel]) -> dict[str, Any]:
    """Return the structural schema of a model.

    Raises:
        ValueError: If the model contains a union, which a structural schema cannot express.
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
    """Return the schema of a list item without the defaults of its properties.

    `kubectl apply` compares whole lists, so that a default in a list item would always be a
    change.
    """
    properties = {
        name: {key: value for key, value in schema.items() if key != "default"}
        for name, schema in item.get("properties", {}).items()
    }
    return item | ({"properties": properties} if properties else {})


def _keyword(key: str, value: Any) -> dict[str, Any]:
    """Return a keyword of JSON Schema as structural schema, or an empty dict."""
    match key:
        case "const":
            return {"enum": [value]}
        case "exclusiveMinimum" | "exclusiveMaximum":
            return {key.replace("exclusiveM", "m"): value, key: True}
        case "default" if value in (None, "", [], {}):
            return {}  # An empty value equals an absent value.
        case "additionalProperties" if value is False:
            return {}  # The API server prunes unknown fields.
        case "x-kubernetes-list-map-keys":
            return {"x-kubernetes-list-type": "map", key: value}
        case _:
            return {key: value}


def _resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with references inlined, and `nullable` instead of a union with null."""
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
