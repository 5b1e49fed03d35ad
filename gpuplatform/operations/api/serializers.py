"""What an operation looks like from outside."""

from datetime import datetime
from typing import Self

from pydantic import Field

from gpuplatform.api.schema import Reply
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationPhase


class Progress(Reply):
    """How much of what was asked is made."""

    done: int = Field(description="Things made.", examples=[1])
    total: int = Field(description="Things to make.", examples=[1])


class ObjectReference(Reply):
    """The object that an operation is about."""

    kind: str = Field(description="Its Kubernetes kind.", examples=["StockPool"])
    namespace: str = Field(description="Its namespace.", examples=["default"])
    name: str = Field(description="Its name.", examples=["h100"])
    uid: str | None = Field(
        description="Its UID, known from the operation's success on.",
        examples=["9b2f6a0e-5f0d-4c56-9d0a-7f6a4a2f3c11"],
    )
    href: str = Field(
        description="Its address in this API.",
        examples=["/api/v1/operator/stockpools/h100?namespace=default"],
    )


class OperationError(Reply):
    """Why an operation failed."""

    code: str = Field(description="Stable code for programs.", examples=["name_conflict"])
    message: str = Field(description="What happened and what to do.")
    retryable: bool = Field(
        description="Whether the same request under a new operationID can succeed.",
        examples=[False],
    )


class OperationReply(Reply):
    """One accepted request, also called job. `Succeeded` says persisted, never ready."""

    operation_id: str = Field(description="The caller's key.", examples=["create-h100-1"])
    kind: str = Field(description="What was asked.", examples=["stockpool.create"])
    phase: OperationPhase = Field(description="What has become of it.", examples=["Succeeded"])
    progress: Progress
    object: ObjectReference | None = Field(description="What it is about.")
    error: OperationError | None = Field(description="Why it failed, if it did.", examples=[None])
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


_ADDRESSES = {
    "StockPool": "/api/v1/operator/stockpools/{name}?namespace={namespace}",
    "GPUUnit": "/api/v1/gpu-units/{name}",
    "GPUSpec": "/api/v1/operator/gpu-specs/{name}",
    "Operation": "/api/v1/operator/jobs/{name}?tenant={tenant}",
    "Function": "/api/v1/serverless/functions/{name}",
    "Invocation": "/api/v1/serverless/invocations/{name}",
}
_STOCK = "/api/v1/operator/stock-units"
"""Stock units have no addresses of their own: the list shows those of a seeding, or of a spec."""


def _address(operation: Operation) -> str:
    namespace, name = operation.object_namespace, operation.object_name
    match operation.kind:
        case "stock.seed":
            return f"{_STOCK}?search={name}"
        case "stock.remove":
            return f"{_STOCK}?specName={operation.payload.get('specName', '')}"
        case _:
            return _ADDRESSES[operation.object_kind].format(
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
