"""The declaration of `operationID`, the idempotency key of every write."""

from typing import Annotated

from pydantic import AfterValidator, Field

from gpuplatform.formats import names

OperationID = Annotated[
    str,
    AfterValidator(names.operation_id),
    Field(
        json_schema_extra={"pattern": f"^{names.OPERATION_ID}$"},
        description="Identifier that the caller chooses for this request, unique within the"
        " tenant. Repeating the request returns the stored operation; using the identifier for a"
        " different request is a conflict.",
        examples=["request-1"],
    ),
]
