"""Query parameters of the routes of GPU units and stock."""

from functools import reduce
from operator import or_
from typing import Annotated, Any, Final, Literal, Self

from django.db.models import QuerySet
from pydantic import AfterValidator, Field, model_validator

from gpuplatform.api.query import DeletionQuery, PageQuery, Query, Several, WholeNumber, Word
from gpuplatform.formats import names
from units.models import GpuUnit
from units.phases import UnitPhase
from units.selectors import StockState, stock_in, stock_live

MAX_WAIT_SECONDS: Final = 60
DEFAULT_WAIT_SECONDS: Final = 30
MAX_LOG_LINES: Final = 5_000
DEFAULT_LOG_LINES: Final = 500

_LABEL: dict[str, Any] = {"pattern": f"^{names.DNS_LABEL}$", "maxLength": names.LABEL_MAX}
Label = Annotated[str, AfterValidator(names.dns_label), Field(json_schema_extra=_LABEL)]


class RowsQuery(PageQuery):
    """The filters of both lists."""

    phase: Several[UnitPhase] = Field(default=(), description="Only these phases.")
    reason: Several[Word] = Field(default=(), description="Only these reasons.")
    spec_name: Several[Word] = Field(
        default=(), alias="specName", description="Only these GPU specs."
    )
    search: str | None = Field(
        default=None,
        max_length=63,
        description="Only units with this text in their name, ignoring case.",
    )

    def applied_to(self, rows: QuerySet[GpuUnit]) -> QuerySet[GpuUnit]:
        """Return the rows that the filters select."""
        wanted = {
            "phase__in": self.phase,
            "reason__in": self.reason,
            "spec_name__in": self.spec_name,
            "name__icontains": self.search,
        }
        return rows.filter(**{key: value for key, value in wanted.items() if value})


class UnitsQuery(RowsQuery):
    """Filters of the list of units."""

    namespace: Label | None = Field(
        default=None, description="Namespace of the caller's tenant; any other has no units."
    )


class StockQuery(RowsQuery):
    """Filters of the list of stock."""

    state: Several[StockState] = Field(default=(), description="Only these states.")

    def stock(self) -> QuerySet[GpuUnit]:
        """Return the stock that all filters select."""
        rows = reduce(or_, map(stock_in, self.state)) if self.state else stock_live()
        return self.applied_to(rows)


class UnitQuery(Query):
    """The namespace of a unit."""

    namespace: Label | None = Field(
        default=None, description="Namespace of the caller's tenant; any other has no units."
    )


class ReadUnitQuery(UnitQuery):
    """Whether the reply waits until the unit is ready."""

    wait: Literal["ready"] | None = Field(
        default=None, description="Reply when the unit is ready or the timeout has expired."
    )
    timeout: Annotated[int, Field(ge=0, le=MAX_WAIT_SECONDS), WholeNumber] | None = Field(
        default=None,
        description=f"Maximum number of seconds to wait; {DEFAULT_WAIT_SECONDS} by default."
        " If too many clients already wait, the reply is immediate.",
        examples=[30],
    )

    @model_validator(mode="after")
    def timeout_needs_wait(self) -> Self:
        """Refuse a timeout without anything to wait for."""
        if self.timeout is not None and self.wait is None:
            msg = "timeout requires wait=ready."
            raise ValueError(msg)
        return self

    @property
    def seconds(self) -> int:
        """How long to wait; 0 for not at all."""
        if self.wait is None:
            return 0
        return DEFAULT_WAIT_SECONDS if self.timeout is None else self.timeout


class DeleteUnitQuery(UnitQuery, DeletionQuery):
    """The namespace of a unit, and the operationID of its deletion."""


class DeleteStockQuery(DeletionQuery):
    """How many stock units of a GPU spec are removed."""

    spec_name: Annotated[str, AfterValidator(names.spec_name)] = Field(
        alias="specName",
        json_schema_extra={"pattern": f"^{names.SPEC_NAME}$", "maxLength": names.LABEL_MAX},
        description="GPU spec of the stock.",
        examples=["h100-1g"],
    )
    number: Annotated[int, Field(ge=1, le=10_000), WholeNumber] = Field(
        description="Exact number of ready, unclaimed stock units to remove.", examples=[1]
    )


class LogQuery(UnitQuery):
    """Which part of the log is read."""

    tail: Annotated[int, Field(ge=1, le=MAX_LOG_LINES), WholeNumber] = Field(
        default=DEFAULT_LOG_LINES,
        description="Number of lines from the end of the log; at most 1 MiB is returned.",
        examples=[100],
    )
    previous: Literal["true", "false"] = Field(
        default="false", description="Whether to read the log of the container's previous run."
    )
    container: Label | None = Field(
        default=None, description="Name of the container; by default the unit's own."
    )


class UnitPageQuery(UnitQuery, PageQuery):
    """A list that belongs to one unit."""
