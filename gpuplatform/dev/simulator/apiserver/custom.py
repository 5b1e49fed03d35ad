"""Validation of custom resources: schema, scale, rules."""

from collections.abc import Iterator

from gpuplatform.dev.simulator.apiserver.errors import Fault, invalid_value
from gpuplatform.dev.simulator.apiserver.jsonpath import value_at
from gpuplatform.dev.simulator.apiserver.objects import Manifest
from gpuplatform.dev.simulator.apiserver.resources import Resource
from gpuplatform.dev.simulator.apiserver.rules import ROOT, rule_faults
from gpuplatform.dev.simulator.apiserver.schema import ABSENT, validate

_MAX_REPLICAS = 2**31 - 1
_BLOCKING = {
    *("FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong"),
    *("FieldValueTooMany", "FieldValueTypeInvalid"),
}
_UNCHECKED = Fault(
    "FieldValueInvalid",
    ROOT,
    "Invalid value: null: some validation rules were not checked because the object was invalid;"
    " correct the existing errors to complete validation",
)


def custom_faults(
    resource: Resource, obj: Manifest, old: Manifest | None, metadata: list[Fault]
) -> list[Fault]:
    """Return every fault of `obj`, or of the change from `old` to it.

    `metadata` are the faults of the metadata; the result contains them.
    """
    before = ABSENT if old is None else old
    faults = [*metadata, *validate(obj, resource.schema, old=before)]
    faults += _scale_faults(resource, obj)
    if resource.rules is None:
        return faults
    if any(fault.reason in _BLOCKING for fault in faults):
        return [*faults, _UNCHECKED]
    return [*faults, *rule_faults(resource.rules, obj, old)]


def _scale_faults(resource: Resource, obj: Manifest) -> Iterator[Fault]:
    for name in ("specReplicasPath", "statusReplicasPath") if resource.scale else ():
        path = (resource.scale or {})[name]
        count = value_at(obj, path)
        if isinstance(count, int) and count < 0:
            yield invalid_value(path, count, "should be a non-negative integer")
        elif isinstance(count, int) and count > _MAX_REPLICAS:
            detail = f"should be less than or equal to {_MAX_REPLICAS}"
            yield invalid_value(path, count, detail)
