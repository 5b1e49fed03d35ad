"""Response models of the routes of usage."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field

from gpuplatform.api.schema import Reply
from gpuplatform.usage.models import UsageKind


class UsageReply(Reply):
    """The usage of one combination of the requested dimensions."""

    kind: UsageKind = Field(description="Kind of usage.", examples=["gpu"])
    tenant: str | None = Field(
        description="Tenant, if grouped by tenant or unit.",
        examples=["default"],
    )
    spec_name: str | None = Field(
        description="GPU spec, if grouped by spec.", examples=["h100-1g"]
    )
    unit: str | None = Field(
        description="Name of the unit or function, if grouped by unit.",
        examples=["trainer"],
    )
    subject: str | None = Field(
        description="UID of the unit, or name of the function, if grouped by unit.",
        examples=["5f0c1e7a"],
    )
    day: str | None = Field(description="Day in UTC, if grouped by day.", examples=["2026-12-01"])
    seconds: float = Field(description="Time in seconds.", examples=[3600.0])
    gpu_seconds: float = Field(description="Seconds multiplied by GPUs.", examples=[3600.0])
    count: int = Field(description="Number of invocations that ended.", examples=[0])
    estimated: bool = Field(description="Whether a part is estimated.", examples=[False])

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """Return the response for a row of `usage_sums`."""
        day = row.get("day")
        return cls(
            kind=row["kind"],
            tenant=row.get("tenant__name"),
            spec_name=row.get("spec_name"),
            unit=row.get("name"),
            subject=row.get("subject"),
            day=None if day is None else f"{day:%Y-%m-%d}",
            seconds=row["milliseconds"] / 1000,
            gpu_seconds=row["gpu_milliseconds"] / 1000,
            count=row["number"],
            estimated=row["estimated"],
        )
