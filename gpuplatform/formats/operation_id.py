"""The field `operationID`, the idempotency key of every write."""

from typing import Annotated

from pydantic import AfterValidator, Field

from gpuplatform.formats import names

OperationID = Annotated[
    str,
    AfterValidator(names.operation_id),
    Field(
        json_schema_extra={"pattern": f"^{names.OPERATION_ID}$"},
        description="Idempotency key of the request, unique within the tenant. A repeated request"
        " returns the stored operation.",
        examples=["request-1"],
    ),
]
