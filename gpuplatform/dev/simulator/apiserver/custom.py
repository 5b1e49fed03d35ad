"""Validation of custom resources: schema, scale subresource and validation rules."""

from collections.abc import Iterator

from gpuplatform.dev.simulator.apiserver.errors import FieldError, invalid_value
from gpuplatform.dev.simulator.apiserver.jsonpath import value_at
from gpuplatform.dev.simulator.apiserver.objects import Manifest
from gpuplatform.dev.simulator.apiserver.resources import Resource
from gpuplatform.dev.simulator.apiserver.rules import ROOT, rule_errors
from gpuplatform.dev.simulator.apiserver.schema import ABSENT, validate

_MAX_REPLICAS = 2**31 - 1
_BLOCKING = {
    *("FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong"),
    *("FieldValueTooMany", "FieldValueTypeInvalid"),
}
_UNCHECKED = FieldError(
    "FieldValueInvalid",
    ROOT,
    "Invalid value: null: some validation rules were not checked because the object was invalid;"
    " correct the existing errors to complete validation",
)


def custom_errors(
    resource: Resource, obj: Manifest, old: Manifest | None, metadata: list[FieldError]
) -> list[FieldError]:
    """Return all validation errors of `obj`, or of its update from `old`.

    `metadata` contains the errors of the metadata, which are included in the result.
    """
    before = ABSENT if old is None else old
    field_errors = [*metadata, *validate(obj, resource.schema, old=before)]
    field_errors += _scale_errors(resource, obj)
    if resource.rules is None:
        return field_errors
    if any(field_error.reason in _BLOCKING for field_error in field_errors):
        return [*field_errors, _UNCHECKED]
    return [*field_errors, *rule_errors(resource.rules, obj, old)]


def _scale_errors(resource: Resource, obj: Manifest) -> Iterator[FieldError]:
    for name in ("specReplicasPath", "statusReplicasPath") if resource.scale else ():
        path = (resource.scale or {})[name]
        count = value_at(obj, path)
        if isinstance(count, int) and count < 0:
            yield invalid_value(path, count, "should be a non-negative integer")
        elif isinstance(count, int) and count > _MAX_REPLICAS:
            detail = f"should be less than or equal to {_MAX_REPLICAS}"
            yield invalid_value(path, count, detail)
