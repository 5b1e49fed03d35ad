"""Validation of `metadata` for all kinds."""

from collections.abc import Callable, Iterator

from gpuplatform.dev.simulator.apiserver.builtins import formats
from gpuplatform.dev.simulator.apiserver.errors import (
    FieldError,
    forbidden_value,
    go_json,
    invalid_value,
)
from gpuplatform.dev.simulator.apiserver.objects import Manifest
from gpuplatform.dev.simulator.apiserver.resources import Resource
from gpuplatform.formats.names import DNS_LABEL, DNS_SUBDOMAIN

_LABEL_NAMES = {"Namespace", "Service"}
_FINALIZERS = {"kubernetes", "orphan", "foregroundDeletion"}
_ANNOTATIONS_BYTES = 256 * 1024
_EVENTS = ("v1", "events.k8s.io/v1")


def metadata_errors(resource: Resource, obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """Return the validation errors of `metadata`, or of its update from `old`."""
    metadata = obj["metadata"]
    field_errors: list[FieldError] = []
    if old is None:
        pattern = (
            DNS_LABEL
            if resource.kind in _LABEL_NAMES and not resource.is_custom
            else DNS_SUBDOMAIN
        )
        name = metadata["name"]
        field_errors += [
            invalid_value("metadata.name", name, w) for w in formats.dns(name, pattern)
        ]
    elif "deletionTimestamp" in old["metadata"]:
        field_errors += _new_finalizers(metadata, old["metadata"])
    field_errors += label_errors(metadata.get("labels", {}), "metadata.labels")
    field_errors += annotation_errors(metadata.get("annotations", {}))
    field_errors += _owner_errors(metadata)
    for index, finalizer in enumerate(metadata.get("finalizers", ())):
        field_errors += _each("metadata.finalizers", finalizer, formats.label_key)
        if _is_core(resource) and "/" not in finalizer and finalizer not in _FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            field_errors.append(invalid_value(f"metadata.finalizers[{index}]", finalizer, detail))
    return field_errors


def _is_core(resource: Resource) -> bool:
    return not resource.is_custom and resource.group != "apiextensions.k8s.io"


def _new_finalizers(metadata: Manifest, before: Manifest) -> Iterator[FieldError]:
    added = [f for f in metadata.get("finalizers", ()) if f not in before.get("finalizers", ())]
    if added:
        detail = (
            "no new finalizers can be added if the object is being deleted, found new finalizers"
            f" {go_json(added)}"
        )
        yield forbidden_value("metadata.finalizers", detail)


def _each(path: str, text: str, rule: Callable[[str], Iterator[str]]) -> list[FieldError]:
    return [invalid_value(path, text, problem) for problem in rule(text)]


def label_errors(labels: dict[str, str], path: str) -> list[FieldError]:
    """Return the validation errors of a map of labels."""
    field_errors: list[FieldError] = []
    for key, value in labels.items():
        field_errors += _each(path, key, formats.label_key) + _each(
            path, value, formats.label_value
        )
    return field_errors


def annotation_errors(
    annotations: dict[str, str], path: str = "metadata.annotations"
) -> list[FieldError]:
    """Return the validation errors of a map of annotations."""
    field_errors = [
        invalid_value(path, key, problem)
        for key in annotations
        for problem in formats.label_key(key.lower())
    ]
    if sum(len(k.encode()) + len(v.encode()) for k, v in annotations.items()) > _ANNOTATIONS_BYTES:
        message = f"Too long: may not be more than {_ANNOTATIONS_BYTES} bytes"
        field_errors.append(FieldError("FieldValueTooLong", path, message))
    return field_errors


def _owner_errors(metadata: Manifest) -> Iterator[FieldError]:
    path = "metadata.ownerReferences"
    controllers: list[str] = []
    for reference in metadata.get("ownerReferences", ()):
        if not reference.get("apiVersion"):
            yield invalid_value(f"{path}.apiVersion", "", "version must not be empty")
        for name in ("kind", "name", "uid"):
            if not reference.get(name):
                yield invalid_value(f"{path}.{name}", "", "must not be empty")
        if reference.get("kind") == "Event" and reference.get("apiVersion") in _EVENTS:
            detail = f"{reference['apiVersion']}, Kind=Event is disallowed from being an owner"
            yield invalid_value(path, reference, detail)
        if reference.get("controller"):
            controllers.append(f"{reference.get('kind')}/{reference.get('name')}")
    if len(controllers) > 1:
        detail = (
            'Only one reference can have Controller set to true. Found "true" in references for'
            f" {controllers[0]} and {controllers[1]}"
        )
        yield invalid_value(path, metadata["ownerReferences"], detail)
