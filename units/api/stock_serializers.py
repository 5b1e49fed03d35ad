"""Response models of the stock unit routes."""

from datetime import datetime
from typing import Annotated, Self

from pydantic import Field
from typing_extensions import override

from gpuplatform.api.schema import NullIfEmpty, words
from gpuplatform.operations.api.resources import path_field
from units.api.serializers import SpecText, UnitReply
from units.models import GpuUnit
from units.phases import STOCK_NAMESPACE, UnitReason
from units.selectors import StockState, stock_state


class StockUnitReply(UnitReply):
    """Spec and status of a stock unit."""

    name: str = Field(
        description="Name of the stock unit.", examples=["stock-h100-1g-0123456789abcdef-001"]
    )
    namespace: str = Field(description="Namespace of the stock unit.", examples=[STOCK_NAMESPACE])
    reason: str = Field(
        description="Code that explains the phase; empty until the status is reported.",
        examples=[UnitReason.STOCK_READY.value],
        json_schema_extra=words(UnitReason, empty=True),
    )
    image: SpecText = path_field(
        "spec", "image", description="Container image; null for the platform's reservation image."
    )
    state: StockState = Field(
        description="State under which the inventory counts the stock unit.",
        examples=[StockState.READY.value],
    )
    node: Annotated[str | None, NullIfEmpty] = Field(
        description="Node of the pod; null if it is not known yet.",
        examples=["gpu-node-1"],
    )
    ordinal: int | None = Field(
        description="Ordinal of the stock unit within its seeding, starting at 1; null if the"
        " stock unit was created with kubectl.",
        examples=[1],
    )
    claimed_by: str | None = Field(
        description="operationID of the open operation that has claimed the stock unit; null if it"
        " is not claimed."
    )
    consumed_by: str | None = Field(
        description="UID of the unit that consumed the stock unit; null if it is not consumed."
    )
    consumed_at: datetime | None = Field(
        description="Time at which the stock unit was consumed; null if it is not consumed."
    )

    @classmethod
    @override
    def of(cls, row: GpuUnit) -> Self:
        """Return the response for a stock unit."""
        return cls(
            **dict(UnitReply.of(row)),
            state=stock_state(row),
            node=row.node,
            ordinal=row.ordinal,
            claimed_by=row.claimed_by.operation_id if row.claimed_by else None,
            consumed_by=row.consumed_by or None,
            consumed_at=row.consumed_at,
        )
