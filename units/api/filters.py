"""What the routes of GPU units and stock take in the address."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from gpuplatform.api.query import DeletionQuery, PageQuery, Query, QueryInt
from gpuplatform.formats import names
from units.phases import UnitPhase
from units.selectors import StockState

MAX_WAIT_SECONDS = 60
DEFAULT_WAIT_SECONDS = 30
MAX_LOG_LINES = 5_000
DEFAULT_LOG_LINES = 500

Place = Annotated[str, AfterValidator(names.dns_label)]


class RowsQuery(PageQuery):
    """The filters that both lists have."""

    phase: UnitPhase | None = Field(default=None, description="Only this phase.")
    reason: str | None = Field(default=None, max_length=64, description="Only this reason.")
    spec_name: str | None = Field(
        default=None, alias="specName", max_length=63, description="Only this GPU spec."
    )
    search: str | None = Field(
        default=None, max_length=63, description="Only those whose name has this in it."
    )

    def wanted(self) -> dict[str, str]:
        """Return the lookups of the given filters."""
        lookups = {
            "phase": self.phase,
            "reason": self.reason,
            "spec_name": self.spec_name,
            "name__contains": self.search,
        }
        return {key: value for key, value in lookups.items() if value}


class UnitsQuery(RowsQuery):
    """Filters of the list of units."""

    namespace: Place | None = Field(
        default=None, description="The namespace of the caller's tenant; any other has no units."
    )


class StockQuery(RowsQuery):
    """Filters of the list of stock."""

    state: StockState | None = Field(default=None, description="Only this state.")


class UnitQuery(Query):
    """Where a unit is."""

    namespace: Place | None = Field(
        default=None, description="The namespace of the caller's tenant; any other has no units."
    )


class ReadUnitQuery(UnitQuery):
    """Whether the answer may come when the unit is ready."""

    wait: Literal["ready"] | None = Field(
        default=None, description="Answer when the unit is ready, or when the time is up."
    )
    timeout: QueryInt | None = Field(
        default=None,
        ge=0,
        le=MAX_WAIT_SECONDS,
        description=f"Seconds to wait at most; {DEFAULT_WAIT_SECONDS} when it is left out."
        " A busy platform answers at once.",
        examples=[30],
    )

    @model_validator(mode="after")
    def fits_together(self) -> Self:
        """A time without anything to wait for is a mistake of the caller."""
        if self.timeout is not None and self.wait is None:
            msg = "timeout goes with wait=ready only."
            raise ValueError(msg)
        return self

    @property
    def seconds(self) -> int:
        """How long to wait; 0 for not at all."""
        if self.wait is None:
            return 0
        return DEFAULT_WAIT_SECONDS if self.timeout is None else self.timeout


class DeleteUnitQuery(UnitQuery, DeletionQuery):
    """Which unit is deleted."""


class DeleteStockQuery(DeletionQuery):
    """Which stock is removed, and how much of it."""

    spec_name: Annotated[str, AfterValidator(names.spec_name)] = Field(
        alias="specName", description="The GPU spec of the stock.", examples=["g1.1"]
    )
    number: QueryInt = Field(
        ge=1, le=10_000, description="Exactly so many ready, unclaimed ones.", examples=[1]
    )


class LogQuery(UnitQuery):
    """Which part of the log."""

    tail: QueryInt = Field(
        default=DEFAULT_LOG_LINES,
        ge=1,
        le=MAX_LOG_LINES,
        description="So many lines from its end; at most 1 MiB.",
        examples=[100],
    )
    previous: Literal["true", "false"] = Field(
        default="false", description="The log of the container's run before the present one."
    )
    container: Place | None = Field(
        default=None, description="The container; the unit's own when it is left out."
    )


class UnitPageQuery(UnitQuery, PageQuery):
    """A list that belongs to one unit."""
