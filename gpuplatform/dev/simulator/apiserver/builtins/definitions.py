"""Validation of CustomResourceDefinitions: names, versions, subresources, columns, fields."""

from collections.abc import Iterator

from gpuplatform.dev.simulator.apiserver.builtins import formats
from gpuplatform.dev.simulator.apiserver.builtins.schemas import rule_errors, schema_errors
from gpuplatform.dev.simulator.apiserver.errors import (
    FieldError,
    duplicate,
    invalid_value,
    not_simulated,
    required,
    unsupported,
)
from gpuplatform.dev.simulator.apiserver.objects import Manifest
from gpuplatform.dev.simulator.apiserver.rules import root_schema
from gpuplatform.dev.simulator.apiserver.schema import schema_at, too_many
from gpuplatform.formats.names import DNS_1035_LABEL

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_SELECTABLE_TYPES = ("string", "boolean", "integer")
_MAX_SELECTABLE = 8


def definition_errors(obj: Manifest, old: Manifest | None) -> Iterator[FieldError]:
    """Yield the validation errors of a definition, or of its update from `old`.

    Raises:
        ApiError: 501 if the definition has several versions, conversion by webhook, or a schema
        with
            keywords that are not simulated.
    """
    field_errors = list(_errors(obj, old))
    yield from field_errors
    if not field_errors and obj["spec"]["conversion"].get("strategy") != "None":
        raise not_simulated("conversion of custom resources by webhook")
    if not field_errors and len(obj["spec"].get("versions", [])) > 1:
        raise not_simulated("custom resource definitions with several versions")


def _errors(obj: Manifest, old: Manifest | None) -> Iterator[FieldError]:
    spec = obj["spec"]
    names, group = spec.get("names", {}), spec.get("group", "")
    yield from _name_errors(obj["metadata"]["name"], names, group)
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
    yield from _version_errors(spec.get("versions", []))


def _version_errors(versions: list[Manifest]) -> Iterator[FieldError]:
    names = [version.get("name", "") for version in versions]
    if sum(bool(version.get("storage")) for version in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        yield invalid_value("spec.versions", versions, detail)
        yield invalid_value("status.storedVersions", names, f"{detail} in spec.versions")
    if len(set(names)) < len(names):
        yield invalid_value("spec.versions", versions, "must contain unique version names")
    for index, (name, version) in enumerate(zip(names, versions, strict=True)):
        for problem in formats.dns(name, DNS_1035_LABEL):
            yield invalid_value(f"spec.versions[{index}].name", name, problem)
            if not index:
                yield invalid_value("spec.version", name, problem)
        # For a single version, Kubernetes reports the field paths of v1beta1.
        is_only, here = len(versions) == 1, f"spec.versions[{index}]"
        schema = version.get("schema", {}).get("openAPIV3Schema")
        if schema is None:
            yield required(f"{here}.schema.openAPIV3Schema")
        else:
            place = "spec.validation" if is_only else f"{here}.schema"
            place = f"{place}.openAPIV3Schema"
            field_errors = list(schema_errors(schema, place, is_root=True))
            yield from field_errors or rule_errors(root_schema(schema), place)
        yield from _extra_errors(version, "spec" if is_only else here)


def _extra_errors(version: Manifest, path: str) -> Iterator[FieldError]:
    for index, column in enumerate(version.get("additionalPrinterColumns", ())):
        here = f"{path}.additionalPrinterColumns[{index}]"
        for name, shown in (("name", "name"), ("jsonPath", "JSONPath")):
            if not column.get(name):
                yield required(f"{here}.{shown}")
        if column.get("type") not in _COLUMN_TYPES:
            detail = f"must be one of {','.join(_COLUMN_TYPES)}"
            yield invalid_value(f"{here}.type", column.get("type", ""), detail)
    scale = version.get("subresources", {}).get("scale", {})
    for name, parents in _SCALE_PARENTS.items() if scale else ():
        yield from _scale_error(scale.get(name, ""), parents, f"{path}.subresources.scale.{name}")
    yield from _selectable_errors(version, f"{path}.selectableFields")


_SCALE_PARENTS = {
    "specReplicasPath": ("spec",),
    "statusReplicasPath": ("status",),
    "labelSelectorPath": ("spec", "status"),
}


def _scale_error(place: str, parents: tuple[str, ...], path: str) -> Iterator[FieldError]:
    if not place:
        if len(parents) == 1:
            yield required(path)
    elif not place.startswith("."):
        yield invalid_value(path, place, "must be a simple json path starting with .")
    elif place.split(".")[1] not in parents or place.count(".") == 1:
        either = "either " if len(parents) > 1 else ""
        where = " or ".join(f".{parent}" for parent in parents)
        yield invalid_value(path, place, f"should be a json path under {either}{where}")


def _selectable_errors(version: Manifest, path: str) -> Iterator[FieldError]:
    fields = version.get("selectableFields", [])
    schema = version.get("schema", {}).get("openAPIV3Schema", {})
    seen: set[str] = set()
    for index, one in enumerate(fields):
        place, here = one.get("jsonPath", ""), f"{path}[{index}].jsonPath"
        found = schema_at(schema, place)
        if not place:
            yield required(here)
        elif found is None:
            yield invalid_value(here, place, "is an invalid path: does not refer to a valid field")
        elif place.startswith(".metadata"):
            yield invalid_value(here, place, "must not point to fields in metadata")
        elif found.get("type") not in _SELECTABLE_TYPES:
            detail = (
                "must point to a field of type string, boolean or integer. Enum string fields and"
                " strings with formats are allowed."
            )
            yield invalid_value(here, place, detail)
        if place in seen:
            yield duplicate(here, place)
        seen.add(place)
    if len(seen) > _MAX_SELECTABLE:
        yield too_many(path, len(seen), _MAX_SELECTABLE)


def _name_errors(name: str, names: Manifest, group: str) -> Iterator[FieldError]:
    for field in ("plural", "kind"):
        if not names.get(field):
            yield required(f"spec.names.{field}")
    if "." not in group:
        yield invalid_value("spec.group", group, "should be a domain with at least one dot")
    for field in ("plural", "singular", "kind", "listKind"):
        yield from _each_name(field, names.get(field, ""))
    for field in ("shortNames", "categories"):
        for index, short in enumerate(names.get(field, ())):
            yield from _each_name(f"{field}[{index}]", short)
    if name != f"{names.get('plural', '')}.{group}":
        detail = 'must be spec.names.plural+"."+spec.group'
        yield invalid_value("metadata.name", name, detail)


def _each_name(field: str, name: str) -> Iterator[FieldError]:
    is_mixed = field.lower().endswith("kind")
    start = "may have mixed case, but should otherwise match: " if is_mixed else ""
    for problem in formats.dns(name.lower() if is_mixed else name, DNS_1035_LABEL) if name else ():
        yield invalid_value(f"spec.names.{field}", name, start + problem)
