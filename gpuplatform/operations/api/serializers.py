"""Replies about operations."""

from datetime import datetime
from typing import Any, Final, Self

from pydantic import Field

from gpuplatform.api.schema import Reply
from gpuplatform.errors import PlatformError
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationPhase
from gpuplatform.operations.registry import kind_names

_UID_EXAMPLE: Final = "9b2f6a0e-5f0d-4c56-9d0a-7f6a4a2f3c11"


def _codes(kind: type[PlatformError] = PlatformError) -> set[str]:
    return {kind.code}.union(*(_codes(child) for child in kind.__subclasses__()))


def with_kinds(schema: dict[str, Any]) -> None:
    """Add the registered kinds, which are complete when the apps are ready."""
    schema["enum"] = [str(name) for name in kind_names()]


class Progress(Reply):
    """How many of the operation's objects are done."""

    done: int = Field(description="Objects that are done.", examples=[1])
    total: int = Field(description="Objects of the operation.", examples=[1])


class ObjectReference(Reply):
    """The object of an operation."""

    kind: str = Field(description="Kind of the object.", examples=["StockPool"])
    namespace: str = Field(
        description="Namespace of the object; empty for an object without one.",
        examples=["default"],
    )
    name: str = Field(description="Name of the object.", examples=["h100"])
    uid: str | None = Field(
        description="UID of the resource; null until the operation has succeeded.",
        examples=[_UID_EXAMPLE],
    )
    href: str = Field(
        description="Address of the object in this API.",
        examples=["/api/v1/operator/stockpools/h100?namespace=default"],
    )


class OperationError(Reply):
    """Why an operation failed."""

    code: str = Field(
        description="Stable code for programs.",
        examples=["name_conflict"],
        json_schema_extra={"enum": [*sorted(_codes())]},
    )
    message: str = Field(
        description="What happened and what to do.",
        examples=["The name 'h100' is in use in the namespace 'default'. Choose another name."],
    )
    retryable: bool = Field(
        description="Whether the same request with a new operationID can succeed.",
        examples=[False],
    )


class OperationReply(Reply):
    """An accepted request and its outcome. `Succeeded` means stored in the cluster, not ready."""

    operation_id: str = Field(
        description="The caller's idempotency key.", examples=["create-stock-pool-1"]
    )
    kind: str = Field(
        description="Kind of the operation.",
        examples=["stockpool.create"],
        json_schema_extra=with_kinds,
    )
    phase: OperationPhase = Field(
        description="Phase of the operation.", examples=[OperationPhase.SUCCEEDED.value]
    )
    progress: Progress
    object: ObjectReference | None = Field(
        description="The object of the operation.",
        examples=[
            {
                "kind": "StockPool",
                "namespace": "default",
                "name": "h100",
                "uid": _UID_EXAMPLE,
                "href": "/api/v1/operator/stockpools/h100?namespace=default",
            }
        ],
    )
    error: OperationError | None = Field(description="Why it failed; null unless it did.")
    created_at: datetime = Field(description="When it was accepted.")
    updated_at: datetime = Field(description="When it last changed.")
    trace_id: str | None = Field(
        description="The traceID of the HTTP request that was accepted; null for an operation that"
        " the platform created automatically.",
        examples=["0f6c1d2e3b4a59687766554433221100"],
    )

    @classmethod
    def of(cls, operation: Operation) -> Self:
        """Return the reply for a row."""
        failed = operation.phase == OperationPhase.FAILED
        return cls(
            operation_id=operation.operation_id,
            kind=operation.kind,
            phase=OperationPhase(operation.phase),
            progress=Progress(done=operation.progress_done, total=operation.progress_total),
            object=_reference(operation),
            error=OperationError(
                code=operation.error_code,
                message=operation.error_message,
                retryable=operation.error_retryable,
            )
            if failed
            else None,
            created_at=operation.created_at,
            updated_at=operation.updated_at,
            trace_id=operation.trace_id or None,
        )


ADDRESSES: Final = {
    "StockPool": "/api/v1/operator/stockpools/{name}?namespace={namespace}",
    "GPUUnit": "/api/v1/gpu-units/{name}",
    "GPUSpec": "/api/v1/operator/gpu-specs/{name}",
    "Operation": "/api/v1/operator/jobs/{name}?tenant={tenant}",
    "Function": "/api/v1/serverless/functions/{name}",
    "Invocation": "/api/v1/serverless/invocations/{name}",
}
STOCK_ADDRESS: Final = "/api/v1/operator/stock-units"


def _address(operation: Operation) -> str:
    """Return the address of the object; for stock the list that contains its units."""
    namespace, name = operation.object_namespace, operation.object_name
    match operation.kind:
        case "stock.seed":
            return f"{STOCK_ADDRESS}?search={name}"
        case "stock.remove" if "stockName" in operation.payload:
            return f"{STOCK_ADDRESS}/{operation.payload['stockName']}"
        case "stock.remove":
            return f"{STOCK_ADDRESS}?specName={operation.payload.get('specName', '')}"
        case _:
            return ADDRESSES[operation.object_kind].format(
                name=name, namespace=namespace, tenant=operation.tenant.name
            )


def _reference(operation: Operation) -> ObjectReference:
    return ObjectReference(
        kind=operation.object_kind,
        namespace=operation.object_namespace,
        name=operation.object_name,
        uid=operation.object_uid or None,
        href=_address(operation),
    )
