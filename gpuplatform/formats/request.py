"""Base classes and field types of request bodies. Pure."""

from functools import partial
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from gpuplatform.formats import names
from gpuplatform.formats.model import SpecModel
from gpuplatform.formats.operation_id import OperationID

DnsLabel = Annotated[
    str,
    AfterValidator(names.dns_label),
    Field(json_schema_extra={"pattern": f"^{names.DNS_LABEL}$", "maxLength": names.LABEL_MAX}),
]
"""A DNS label, such as the name of a namespace."""

OwnName = Annotated[
    str,
    AfterValidator(partial(names.dns_label, max_length=names.OWN_NAME_MAX)),
    Field(json_schema_extra={"pattern": f"^{names.DNS_LABEL}$", "maxLength": names.OWN_NAME_MAX}),
]
"""The name of a custom resource: a DNS label that is short enough for a prefix."""


class OperationBody(SpecModel):
    """The body of a request that is accepted as an operation."""

    operation_id: OperationID = Field(alias="operationID")

    def payload(self) -> dict[str, Any]:
        """Return the fields that are stored and hashed: all but the operationID and defaults."""
        payload = self.normalised()
        del payload["operationID"]
        return payload


class ChangeBody(OperationBody):
    """The body of a change: a specified field replaces the current value; others keep theirs."""

    @model_validator(mode="after")
    def changes_something(self) -> Self:
        """Reject a change without any field."""
        if not self.model_fields_set - {"operation_id"}:
            msg = "Specify at least one field to change."
            raise ValueError(msg)
        return self
