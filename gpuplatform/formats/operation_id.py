"""The declaration of `operationID`, which every write carries."""

from typing import Annotated

from pydantic import AfterValidator, Field

from gpuplatform.formats import names

OperationID = Annotated[
    str,
    AfterValidator(names.operation_id),
    Field(
        json_schema_extra={"pattern": f"^{names.OPERATION_ID}$"},
        description="Identifies this request. Sent again with the same payload it answers the"
        " first result;"
        " with another payload it is a conflict.",
        examples=["create-h100-1"],
    ),
]
