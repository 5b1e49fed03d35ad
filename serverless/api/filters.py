"""Query parameters of the routes of functions and invocations."""

from typing import Any

from pydantic import Field

from gpuplatform.api.query import PageQuery, Query, QueryInt
from serverless.phases import FunctionPhase, InvocationState


class FunctionsQuery(PageQuery):
    """Filters of the list of functions."""

    phase: FunctionPhase | None = Field(default=None, description="Only functions in this phase.")
    search: str | None = Field(
        default=None, max_length=48, description="Only functions whose name contains this text."
    )

    def wanted(self) -> dict[str, Any]:
        """Return the lookups of the given filters."""
        lookups = {"phase": self.phase, "request_id__contains": self.search}
        return {key: value for key, value in lookups.items() if value}


class InvocationsQuery(PageQuery):
    """Filters of the list of invocations."""

    request_id: str | None = Field(
        default=None,
        alias="requestID",
        max_length=48,
        description="Only invocations of this function.",
    )
    state: InvocationState | None = Field(
        default=None, description="Only invocations in this state."
    )

    def wanted(self) -> dict[str, Any]:
        """Return the lookups of the given filters."""
        lookups = {"function__request_id": self.request_id, "state": self.state}
        return {key: value for key, value in lookups.items() if value}


class ResultQuery(Query):
    """Parameters of a signed link to a result."""

    expires: QueryInt = Field(description="Expiry of the link, as Unix time.", examples=[1])
    sig: str = Field(max_length=83, description="Signature of the link.", examples=["1-…"])
