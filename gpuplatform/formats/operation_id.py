"""The field `operationID`, the idempotency key of every write."""

from typing import Annotated

from pydantic import AfterValidator, Field

from gpuplatform.formats import names

OperationID = Annotated[
    str,
    AfterValidator(names.operation_id),
    Field(
        json_schema_extra={"pattern": f"^{names.OPERATION_ID}$"},
        description="Idempotency key that the caller chooses for the request, unique within the"
        " tenant. Repeating the request returns the stored operation. Using the key for another"
        " request is a conflict.",
        examples=["request-1"],
    ),
]
