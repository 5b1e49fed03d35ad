"""Validates the spec of a resource that any client of the cluster can write. Pure."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from gpuplatform.errors import FieldError, InvalidSpec
from gpuplatform.formats.model import invalid_spec
from gpuplatform.formats.names import OWN_NAME_MAX, dns_label

Spec = TypeVar("Spec")


def valid_spec(resource: Mapping[str, Any], parse: Callable[[Any], Spec]) -> Spec:
    """Return the spec of a resource, parsed with `parse`.

    Raises:
        InvalidSpec: If the spec is invalid or the name of the resource is too long for the names
            of its objects. The JSON paths start at the resource.
    """
    try:
        dns_label(resource["metadata"]["name"], max_length=OWN_NAME_MAX)
    except ValueError as error:
        raise invalid_spec([FieldError("metadata.name", str(error))]) from error
    try:
        return parse(resource.get("spec") or {})
    except InvalidSpec as error:
        errors = [
            FieldError(f"spec.{one.field}".rstrip("."), one.message) for one in error.details
        ]
        raise invalid_spec(errors) from error
