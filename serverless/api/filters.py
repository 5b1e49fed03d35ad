"""What the serverless routes take in the address."""

from typing import Any

from pydantic import Field

from gpuplatform.api.query import PageQuery, Query, QueryInt
from serverless.phases import FunctionPhase, InvocationState


class FunctionsQuery(PageQuery):
    """Filters of the list of functions."""

    phase: FunctionPhase | None = Field(default=None, description="Only this phase.")
    search: str | None = Field(
        default=None, max_length=48, description="Only those whose name has this in it."
    )

    def wanted(self) -> dict[str, Any]:
        """Return the lookups of the given filters."""
        lookups = {"phase": self.phase, "request_id__contains": self.search}
        return {key: value for key, value in lookups.items() if value}


class InvocationsQuery(PageQuery):
    """Filters of the list of invocations."""

    request_id: str | None = Field(
        default=None, alias="requestID", max_length=48, description="Only of this function."
    )
    state: InvocationState | None = Field(default=None, description="Only this state.")

    def wanted(self) -> dict[str, Any]:
        """Return the lookups of the given filters."""
        lookups = {"function__request_id": self.request_id, "state": self.state}
        return {key: value for key, value in lookups.items() if value}


class ResultQuery(Query):
    """What makes a link a link of ours."""

    expires: QueryInt = Field(description="Until when it works, as Unix time.", examples=[1])
    sig: str = Field(max_length=83, description="Its signature.", examples=["1-…"])
