"""Checks of custom resource definitions: structural schemas, and nothing that is not simulated."""

import re
from collections.abc import Iterator
from typing import Any

from gpuplatform.dev.simulator.apiserver.builtins import words
from gpuplatform.dev.simulator.apiserver.objects import Manifest
from gpuplatform.dev.simulator.apiserver.schema import (
    INT_OR_STRING,
    PRESERVE,
    go_pattern,
    validate,
)
from gpuplatform.dev.simulator.apiserver.status import (
    Fault,
    forbidden_value,
    invalid_value,
    not_simulated,
    required,
    unsupported,
)
from gpuplatform.formats.names import DNS_1035_LABEL

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_NOT_SIMULATED = {"allOf", "anyOf", "oneOf", "not", "x-kubernetes-validations"}
"""What no spec model of the platform can say, so that nothing here holds values to it."""


def definition_faults(obj: Manifest, old: Manifest | None) -> Iterator[Fault]:
    """Yield what is wrong with a definition.

    Raises:
        ApiError: 501, it has several versions, conversion by webhook, or a schema with words that
            nothing holds values to.
    """
    faults = list(_faults(obj, old))
    yield from faults
    if not faults and obj["spec"]["conversion"].get("strategy") != "None":
        raise not_simulated("conversion of custom resources by webhook")
    if not faults and len(obj["spec"].get("versions", [])) > 1:
        raise not_simulated("custom resource definitions with several versions")


def _faults(obj: Manifest, old: Manifest | None) -> Iterator[Fault]:
    spec = obj["spec"]
    names, group = spec.get("names", {}), spec.get("group", "")
    yield from _name_faults(obj["metadata"]["name"], names, group)
    if spec.get("scope") not in {"Namespaced", "Cluster"}:
        yield unsupported("spec.scope", spec.get("scope", ""), ("Cluster", "Namespaced"))
    for name in ("group", "scope") if old else ():
        if old and spec.get(name) != old["spec"].get(name):
            yield invalid_value(f"spec.{name}", spec.get(name), "field is immutable")
    if spec.get("preserveUnknownFields"):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in"
            " spec.versions[*].schema instead"
        )
        yield invalid_value("spec.preserveUnknownFields", spec["preserveUnknownFields"], detail)
    yield from _version_faults(spec.get("versions", []))


def _version_faults(versions: list[Manifest]) -> Iterator[Fault]:
    names = [version.get("name", "") for version in versions]
    if sum(bool(version.get("storage")) for version in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        yield invalid_value("spec.versions", versions, detail)
        yield invalid_value("status.storedVersions", names, f"{detail} in spec.versions")
    if len(set(names)) < len(names):
        yield invalid_value("spec.versions", versions, "must contain unique version names")
    for index, (name, version) in enumerate(zip(names, versions, strict=True)):
        for problem in words.dns(name, DNS_1035_LABEL):
            yield invalid_value(f"spec.versions[{index}].name", name, problem)
            if not index:
                yield invalid_value("spec.version", name, problem)
        # With one version the real server names the places where v1beta1 had these.
        is_only, here = len(versions) == 1, f"spec.versions[{index}]"
        schema = version.get("schema", {}).get("openAPIV3Schema")
        if schema is None:
            yield required(f"{here}.schema.openAPIV3Schema")
        else:
            place = "spec.validation" if is_only else f"{here}.schema"
            yield from _schema_faults(schema, f"{place}.openAPIV3Schema", is_root=True)
        yield from _extra_faults(version, "spec" if is_only else here)


def _extra_faults(version: Manifest, path: str) -> Iterator[Fault]:
    for index, column in enumerate(version.get("additionalPrinterColumns", ())):
        here = f"{path}.additionalPrinterColumns[{index}]"
        for name, shown in (("name", "name"), ("jsonPath", "JSONPath")):
            if not column.get(name):
                yield required(f"{here}.{shown}")
        if column.get("type") not in _COLUMN_TYPES:
            detail = f"must be one of {','.join(_COLUMN_TYPES)}"
            yield invalid_value(f"{here}.type", column.get("type", ""), detail)
    scale = version.get("subresources", {}).get("scale", {})
    for name in ("specReplicasPath", "statusReplicasPath", "labelSelectorPath"):
        place = scale.get(name)
        if place and not place.startswith("."):
            detail = "must be a simple json path starting with ."
            yield invalid_value(f"{path}.subresources.scale.{name}", place, detail)


def _name_faults(name: str, names: Manifest, group: str) -> Iterator[Fault]:
    for field in ("plural", "kind"):
        if not names.get(field):
            yield required(f"spec.names.{field}")
    if "." not in group:
        yield invalid_value("spec.group", group, "should be a domain with at least one dot")
    for field in ("plural", "singular", "kind", "listKind"):
        yield from _each_name(field, names.get(field, ""))
    if name != f"{names.get('plural', '')}.{group}":
        detail = 'must be spec.names.plural+"."+spec.group'
        yield invalid_value("metadata.name", name, detail)


def _each_name(field: str, name: str) -> Iterator[Fault]:
    is_mixed = field.lower().endswith("kind")
    start = "may have mixed case, but should otherwise match: " if is_mixed else ""
    for problem in words.dns(name.lower() if is_mixed else name, DNS_1035_LABEL) if name else ():
        yield invalid_value(f"spec.names.{field}", name, start + problem)


def _schema_faults(schema: Any, path: str, *, is_root: bool = False) -> Iterator[Fault]:
    if not isinstance(schema, dict):
        yield invalid_value(path, schema, "must be an object")
        return
    if unheld := sorted(_NOT_SIMULATED & schema.keys()):
        raise not_simulated(f"{unheld[0]} in the schema of a custom resource")
    if "$ref" not in schema:
        yield from _type_faults(schema, path, is_root=is_root)
    yield from _word_faults(schema, path)
    yield from _list_faults(schema, path)
    yield from _use_faults(schema, path)
    for name, sub in schema.get("properties", {}).items():
        yield from _schema_faults(sub, f"{path}.properties[{name}]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _schema_faults(schema["additionalProperties"], f"{path}.additionalProperties")
    if schema.get("type") == "array":
        if "items" not in schema:
            yield required(f"{path}.items", "must be specified")
        else:
            yield from _schema_faults(schema["items"], f"{path}.items")


def _word_faults(schema: dict[str, Any], path: str) -> Iterator[Fault]:
    for word in ("$ref", "patternProperties", "definitions", "dependencies"):
        if word in schema:
            yield forbidden_value(f"{path}.{word}", f"{word} is not supported")
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden_value(f"{path}.uniqueItems", detail)
    if "properties" in schema and "additionalProperties" in schema:
        detail = "additionalProperties and properties are mutual exclusive"
        yield forbidden_value(f"{path}.additionalProperties", detail)


def _use_faults(schema: dict[str, Any], path: str) -> Iterator[Fault]:
    if "default" in schema:
        yield from validate(schema["default"], schema, f"{path}.default")
    try:
        go_pattern(schema.get("pattern", ""))
    except re.error as error:
        detail = f"must be a valid regular expression, but isn't: {error}"
        yield invalid_value(f"{path}.pattern", schema["pattern"], detail)


def _type_faults(schema: dict[str, Any], path: str, *, is_root: bool) -> Iterator[Fault]:
    kind = schema.get("type")
    free = schema.get(PRESERVE) or schema.get(INT_OR_STRING)
    if kind is None and (is_root or not free):
        where = "for the root" if is_root else "for specified object fields"
        yield required(f"{path}.type", f"must not be empty {where}")
    elif kind is not None and kind not in _TYPES:
        yield unsupported(f"{path}.type", kind, _TYPES)
    elif is_root and kind != "object":
        yield invalid_value(f"{path}.type", kind, "must be object at the root")


def _list_faults(schema: dict[str, Any], path: str) -> Iterator[Fault]:
    kind = schema.get("x-kubernetes-list-type")
    if kind not in {None, "atomic", "set", "map"}:
        yield unsupported(f"{path}.x-kubernetes-list-type", kind, ("atomic", "map", "set"))
    keys = schema.get("x-kubernetes-list-map-keys", [])
    if kind == "map" and not keys:
        detail = "must not be empty if x-kubernetes-list-type is map"
        yield required(f"{path}.x-kubernetes-list-map-keys", detail)
    items = schema.get("items", {})
    for key in keys:
        has_default = "default" in items.get("properties", {}).get(key, {})
        if not has_default and key not in items.get("required", ()):
            detail = (
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be"
                " a required property"
            )
            yield required(f"{path}.items.properties[{key}].default", detail)
