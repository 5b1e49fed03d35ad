"""Response models of operations."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, Self

from django.db.models import Func, JSONField
from pydantic import Field

from gpuplatform.api.schema import Reply
from gpuplatform.errors import error_classes
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationPhase, OperationWait
from gpuplatform.operations.registry import QueuePlace, kind_names, queue_places
from gpuplatform.operations.waits import Wait, waits_of

_UID_EXAMPLE: Final = "9b2f6a0e-5f0d-4c56-9d0a-7f6a4a2f3c11"


def with_kinds(schema: dict[str, Any]) -> None:
    """Add the registered kinds of operation to a schema. The apps must be ready."""
    schema["enum"] = [str(name) for name in kind_names()]


class Progress(Reply):
    """Progress of an operation."""

    done: int = Field(description="Number of objects that are processed.", examples=[1])
    total: int = Field(description="Total number of objects of the operation.", examples=[1])


class ObjectReference(Reply):
    """Reference to the object of an operation."""

    kind: str = Field(description="Kind of the object.", examples=["StockPool"])
    namespace: str = Field(
        description="Namespace of the object. Empty for objects without a namespace.",
        examples=["default"],
    )
    name: str = Field(description="Name of the object.", examples=["h100"])
    uid: str | None = Field(
        description="UID of the Kubernetes resource. Null until the operation has succeeded.",
        examples=[_UID_EXAMPLE],
    )
    href: str = Field(
        description="URL of the object in this API.",
        examples=["/api/v1/operator/stockpools/h100?namespace=runtime-pools"],
    )


class OperationError(Reply):
    """Error of a failed operation."""

    code: str = Field(
        description="Stable, machine-readable code of the error.",
        examples=["name_conflict"],
        json_schema_extra={"enum": [*sorted({kind.code for kind in error_classes()})]},
    )
    message: str = Field(
        description="Human-readable description of the error and of the next step.",
        examples=[
            "The name 'h100' is already in use in the namespace 'default'. Choose another name."
        ],
    )
    retryable: bool = Field(
        description="Whether the same request with a new operationID can succeed.",
        examples=[False],
    )


class WaitReply(Reply):
    """Reason why an open operation waits."""

    reason: str = Field(
        description="Code of the reason.",
        examples=[OperationWait.CLUSTER_UNAVAILABLE.value],
    )
    message: str = Field(
        description="Human-readable reason.", examples=["The cluster does not respond."]
    )
    since: datetime = Field(description="Time since which the operation waits for this reason.")


class QueueReply(Reply):
    """Place in the queue of a GPU spec."""

    position: int = Field(description="Position, starting at 1.", examples=[3])
    ahead: int = Field(description="Number of requests before this one.", examples=[2])
    estimate_seconds: Sequence[int] | None = Field(
        validation_alias="seconds",
        description="Estimated range of the remaining seconds; null if unknown.",
        examples=[[60, 180]],
    )


class OperationReply(Reply):
    """An accepted request and its outcome. `Succeeded` means stored in the cluster, not ready."""

    operation_id: str = Field(
        description="Idempotency key of the request, chosen by the caller.",
        examples=["create-stock-pool-1"],
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
        description="Object that the operation creates, changes or deletes.",
        examples=[
            {
                "kind": "StockPool",
                "namespace": "default",
                "name": "h100",
                "uid": _UID_EXAMPLE,
                "href": "/api/v1/operator/stockpools/h100?namespace=runtime-pools",
            }
        ],
    )
    waiting: WaitReply | None = Field(
        description="Reason why the operation waits. Null if it has just been accepted, is"
        " executed, or has ended."
    )
    queue: QueueReply | None = Field(
        description="Place in the queue for stock; null if it does not wait for stock."
    )
    error: OperationError | None = Field(
        description="Error of the operation. Null unless the operation has failed."
    )
    created_at: datetime = Field(description="Time at which the operation was accepted.")
    updated_at: datetime = Field(description="Time at which the operation last changed.")
    trace_id: str | None = Field(
        description="ID of the accepted HTTP request in the platform's log. Null if the platform"
        " created the operation itself.",
        examples=["0f6c1d2e3b4a59687766554433221100"],
    )

    @classmethod
    def of(
        cls, operation: Operation, wait: Wait | None = None, place: QueuePlace | None = None
    ) -> Self:
        """Return the response for an operation.

        Args:
            operation: The operation.
            wait: The reason why it waits, if any.
            place: Its place in the queue for stock, if it waits for stock.
        """
        failed = operation.phase == OperationPhase.FAILED
        return cls(
            operation_id=operation.operation_id,
            kind=operation.kind,
            phase=OperationPhase(operation.phase),
            progress=Progress(done=operation.progress_done, total=operation.progress_total),
            object=_reference(operation),
            waiting=WaitReply.model_validate(wait) if wait else None,
            queue=QueueReply.model_validate(place) if place else None,
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


def operation_replies(operations: Sequence[Operation]) -> list[OperationReply]:
    """Return the responses for operations, with the reasons why they wait."""
    waits, places = waits_of(operations), queue_places(operations)
    return [OperationReply.of(one, waits.get(one.pk), places.get(one.pk)) for one in operations]


ADDRESSES: Final = {
    "StockPool": "/api/v1/operator/stockpools/{name}?namespace={namespace}",
    "GPUUnit": "/api/v1/gpu-units/{name}",
    "UnitGroup": "/api/v1/unit-groups/{name}",
    "GPUSpec": "/api/v1/operator/gpu-specs/{name}",
    "Tenant": "/api/v1/operator/tenants/{name}",
    "Node": "/api/v1/operator/nodes/{name}",
    "Member": "/api/v1/tenant/members",
    "Token": "/api/v1/tokens",
    "Operation": "/api/v1/operator/jobs/{name}?tenant={tenant}",
    "Function": "/api/v1/serverless/functions/{name}",
    "Invocation": "/api/v1/serverless/invocations/{name}",
}
STOCK_ADDRESS: Final = "/api/v1/operator/stock-units"


class AddressedParts(Func):
    """The part of a payload on which the URL of the object depends."""

    output_field = JSONField()
    template = """jsonb_strip_nulls(jsonb_build_object(
        'stockName', %(expressions)s -> 'stockName', 'specName', %(expressions)s -> 'specName'))"""


def _address(operation: Operation) -> str:
    """Return the URL of the object, or of the list of stock units that contains it."""
    namespace, name = operation.object_namespace, operation.object_name
    match operation.kind:
        case "stock.seed":
            return f"{STOCK_ADDRESS}?search={name}"
        case "stock.remove" if "stockName" in operation.payload:
            return f"{STOCK_ADDRESS}/{operation.payload['stockName']}"
        case "stock.remove":
            return f"{STOCK_ADDRESS}?specName={operation.payload.get('specName', '')}"
        case "member.update" | "member.delete" if "tenant" in operation.payload:
            return f"/api/v1/operator/tenants/{operation.payload['tenant']}/members"
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
