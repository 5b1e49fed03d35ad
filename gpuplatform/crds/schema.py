"""Turns a declared spec and status into a CustomResourceDefinition. Pure.

What a structural schema can say is said (types, bounds, enums, required fields, list keys);
grammars and rules across fields stay in the models, whose reconciler answers them with
`InvalidSpec`. Called by `export_crds` and `install_cluster`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from gpuplatform.kube.kinds import CUSTOM_RESOURCE_DEFINITION, ResourceKind

_DROPPED = frozenset({"title", "examples", "$defs"})


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """One column of `kubectl get`."""

    name: str
    type: str
    json_path: str
    description: str = ""

    def manifest(self) -> dict[str, str]:
        """Return the column as the CRD has it."""
        column = {"name": self.name, "type": self.type, "jsonPath": self.json_path}
        return column | ({"description": self.description} if self.description else {})


def crd_manifest(
    kind: ResourceKind,
    *,
    spec: type[BaseModel],
    status: type[BaseModel],
    printer_columns: Sequence[PrinterColumn],
) -> dict[str, Any]:
    """Return the CRD of `kind`: one version, served and stored, with a status subresource."""
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [column.manifest() for column in printer_columns],
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
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": structural(spec),
            "status": structural(status),
        },
    }


def structural(model: type[BaseModel]) -> dict[str, Any]:
    """Return the structural schema of a model.

    Raises:
        ValueError: the model holds a union, which no structural schema can say.
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
                converted[key] = _converted(value, definitions)
            case _:
                converted |= _keyword(key, value)
    return converted


def _keyword(key: str, value: Any) -> dict[str, Any]:
    """Say one keyword of JSON Schema as Kubernetes wants it; nothing if it may not be said."""
    match key:
        case "const":
            return {"enum": [value]}
        case "exclusiveMinimum" | "exclusiveMaximum":
            return {key.replace("exclusiveM", "m"): value, key: True}
        case "default" if value in (None, "", [], {}):
            return {}  # absent and empty are the same: nothing to fill in
        case "additionalProperties" if value is False:
            return {}  # the server prunes unknown fields by itself
        case "x-kubernetes-list-map-keys":
            return {"x-kubernetes-list-type": "map", key: value}
        case _:
            return {key: value}


def _resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Inline the reference, take null out of a choice, leave out what only readers want."""
    found = {key: value for key, value in schema.items() if key not in _DROPPED}
    if reference := found.pop("$ref", None):
        target = definitions[reference.removeprefix("#/$defs/")]
        return _resolved({**target, **found}, definitions)
    if choice := found.pop("anyOf", None):
        options = [one for one in choice if one != {"type": "null"}]
        if len(options) != 1:
            msg = f"A structural schema cannot say a union: {choice}."
            raise ValueError(msg)
        return _resolved({**options[0], **found, "nullable": True}, definitions)
    return found
