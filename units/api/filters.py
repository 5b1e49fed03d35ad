"""Query parameters of the GPU unit and stock routes."""

from functools import reduce
from operator import or_
from typing import Annotated, Any, Final, Literal, Self

from django.db.models import QuerySet
from pydantic import AfterValidator, Field, model_validator
from typing_extensions import override

from gpuplatform.api.query import DeletionQuery, PageQuery, Query, Several, WholeNumber
from gpuplatform.formats import names
from gpuplatform.formats.request import DnsLabel
from gpuplatform.operations.api.resources import ResourcesQuery
from units.models import GpuUnit
from units.phases import UnitPhase
from units.selectors import StockState, stock_in, stock_live
from units.waiting_display import shown_with

MAX_WAIT_SECONDS: Final = 60
DEFAULT_WAIT_SECONDS: Final = 30
MAX_LOG_LINES: Final = 5_000
DEFAULT_LOG_LINES: Final = 500


class UnitQuery(Query):
    """The namespace of the unit or units."""

    namespace: DnsLabel | None = Field(
        default=None,
        description="Namespace of the unit. Defaults to the namespace of the caller's tenant.",
    )


class UnitsQuery(ResourcesQuery, UnitQuery):
    """Filters of the list of active units."""

    phase: Several[UnitPhase] = Field(default=(), description="Return only units in these phases.")

    @override
    def applied_to(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows that match all filters, by the phase and reason that are displayed."""
        others = self.model_copy(update={"phase": (), "reason": ()})
        shown = shown_with(rows, self.phase, self.reason) if self.phase or self.reason else rows
        return super(UnitsQuery, others).applied_to(shown)


class StockQuery(ResourcesQuery):
    """Filters of the list of stock units."""

    phase: Several[UnitPhase] = Field(
        default=(), description="Return only stock units in these phases."
    )
    state: Several[StockState] = Field(
        default=(), description="Return only stock units in these states."
    )

    def stock(self) -> QuerySet[GpuUnit]:
        """Return the stock units that match all filters."""
        rows = reduce(or_, map(stock_in, self.state)) if self.state else stock_live()
        return self.applied_to(rows)


class ReadUnitQuery(UnitQuery):
    """The namespace of a unit, and whether the request waits until the unit is ready."""

    wait: Literal["ready"] | None = Field(
        default=None,
        description="If set to `ready`, the response is sent when the unit is ready or the timeout"
        " has expired.",
    )
    timeout: Annotated[int, Field(ge=0, le=MAX_WAIT_SECONDS), WholeNumber] | None = Field(
        default=None,
        description="Maximum duration of the wait in seconds. Defaults to"
        f" {DEFAULT_WAIT_SECONDS}. If too many requests are already waiting, the response is sent"
        " immediately.",
        examples=[30],
    )

    @model_validator(mode="after")
    def timeout_requires_wait(self) -> Self:
        """Reject a timeout without `wait`."""
        if self.timeout is not None and self.wait is None:
            msg = "timeout requires wait=ready."
            raise ValueError(msg)
        return self

    @property
    def seconds(self) -> int:
        """The maximum duration of the wait in seconds; 0 if the request does not wait."""
        if self.wait is None:
            return 0
        return DEFAULT_WAIT_SECONDS if self.timeout is None else self.timeout


class DeleteUnitQuery(UnitQuery, DeletionQuery):
    """The namespace of a unit and the operationID of its deletion."""


class DeleteStockQuery(DeletionQuery):
    """The GPU spec and the number of the stock units to remove."""

    spec_name: Annotated[str, AfterValidator(names.spec_name)] = Field(
        alias="specName",
        json_schema_extra={"pattern": f"^{names.SPEC_NAME}$", "maxLength": names.LABEL_MAX},
        description="Name of the GPU spec of the stock units.",
        examples=["h100-1g"],
    )
    number: Annotated[int, Field(ge=1, le=10_000), WholeNumber] = Field(
        description="Number of ready, unclaimed stock units to remove. If fewer exist, none is"
        " removed.",
        examples=[1],
    )


class LogQuery(UnitQuery):
    """The part of the log to return."""

    tail: Annotated[int, Field(ge=1, le=MAX_LOG_LINES), WholeNumber] = Field(
        default=DEFAULT_LOG_LINES,
        description="Number of lines to return from the end of the log. The response contains at"
        " most 1 MiB.",
        examples=[100],
    )
    previous: Literal["true", "false"] = Field(
        default="false",
        description="Whether to return the log of the previous run of the container.",
    )
    container: DnsLabel | None = Field(
        default=None,
        description="Name of the container. Defaults to the container of the unit's image.",
    )


class UnitPageQuery(UnitQuery, PageQuery):
    """The parameters of a list that belongs to one unit."""
