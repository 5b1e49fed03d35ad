"""The spec of a resource, which any client of the cluster may have written. Pure."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from gpuplatform.errors import FieldError, InvalidSpec
from gpuplatform.formats.model import invalid_spec
from gpuplatform.formats.names import OWN_NAME_MAX, dns_label

Spec = TypeVar("Spec")


def valid_spec(resource: Mapping[str, Any], parse: Callable[[Any], Spec]) -> Spec:
    """Return the spec as `parse` returns it.

    Raises:
        InvalidSpec: it breaks a rule, or the resource's name is too long for its objects; the
            paths of the faults start at the resource.
    """
    try:
        dns_label(resource["metadata"]["name"], max_length=OWN_NAME_MAX)
    except ValueError as error:
        raise invalid_spec([FieldError("metadata.name", str(error))]) from error
    try:
        return parse(resource.get("spec") or {})
    except InvalidSpec as error:
        faults = [FieldError(f"spec.{f.field}".rstrip("."), f.message) for f in error.details]
        raise invalid_spec(faults) from error
