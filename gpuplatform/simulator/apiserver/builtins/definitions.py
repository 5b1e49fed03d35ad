"""Checks of custom resource definitions: structural schemas, and nothing that is not simulated."""

from collections.abc import Iterator
from typing import Any

from gpuplatform.formats.names import DNS_1035_LABEL
from gpuplatform.simulator.apiserver.builtins import words
from gpuplatform.simulator.apiserver.objects import Manifest
from gpuplatform.simulator.apiserver.schema import INT_OR_STRING, PRESERVE
from gpuplatform.simulator.apiserver.status import (
    Fault,
    forbidden_value,
    invalid_value,
    not_simulated,
    required,
    unsupported,
)

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_VALUE_ONLY = ("allOf", "anyOf", "oneOf")


def definition_faults(obj: Manifest, old: Manifest | None) -> Iterator[Fault]:
    """Yield what is wrong with a definition.

    Raises:
        ApiError: 501, it has several versions, conversion by webhook, or CEL rules.
    """
    spec = obj["spec"]
    names, group = spec.get("names", {}), spec.get("group", "")
    yield from _name_faults(obj["metadata"]["name"], names, group)
    if spec.get("scope") not in {"Namespaced", "Cluster"}:
        yield unsupported("spec.scope", spec.get("scope", ""), ("Cluster", "Namespaced"))
    for name in ("group", "scope") if old else ():
        if old and spec.get(name) != old["spec"].get(name):
            yield invalid_value(f"spec.{name}", spec.get(name), "field is immutable")
    if spec["conversion"].get("strategy") != "None":
        raise not_simulated("conversion of custom resources by webhook")
    yield from _version_faults(spec.get("versions", []))


def _version_faults(versions: list[Manifest]) -> Iterator[Fault]:
    if len(versions) > 1:
        raise not_simulated("custom resource definitions with several versions")
    if not versions or not versions[0].get("storage"):
        detail = "must have exactly one version marked as storage version"
        yield invalid_value("spec.versions", versions, detail)
    for version in versions:
        schema = version.get("schema", {}).get("openAPIV3Schema")
        if schema is None:
            yield required("spec.versions[0].schema.openAPIV3Schema")
        else:  # with one version the real server names the place where v1beta1 had the schema
            yield from _schema_faults(schema, "spec.validation.openAPIV3Schema", is_root=True)


def _name_faults(name: str, names: Manifest, group: str) -> Iterator[Fault]:
    for field in ("plural", "kind"):
        if not names.get(field):
            yield required(f"spec.names.{field}")
    if "." not in group:
        yield invalid_value("spec.group", group, "should be a domain with at least one dot")
    for field in ("plural", "singular"):
        text = names.get(field, "")
        if text:
            problems = words.dns(text, DNS_1035_LABEL)
            yield from (invalid_value(f"spec.names.{field}", text, w) for w in problems)
    if name != f"{names.get('plural', '')}.{group}":
        detail = 'must be spec.names.plural+"."+spec.group'
        yield invalid_value("metadata.name", name, detail)


def _schema_faults(schema: Any, path: str, *, is_root: bool = False) -> Iterator[Fault]:
    if not isinstance(schema, dict):
        yield invalid_value(path, schema, "must be an object")
        return
    if schema.get("x-kubernetes-validations"):
        raise not_simulated("CEL rules (x-kubernetes-validations)")
    if "$ref" not in schema:
        yield from _type_faults(schema, path, is_root=is_root)
    yield from _word_faults(schema, path)
    yield from _list_faults(schema, path)
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
    for word in _VALUE_ONLY:
        for index, part in enumerate(schema.get(word, ())):
            for name in ("description", "default", "nullable", "additionalProperties"):
                if name in part:
                    detail = "must be undefined to be structural"
                    yield forbidden_value(f"{path}.{word}[{index}].{name}", detail)


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
