"""Query parameters of the function and invocation routes."""

from typing import Annotated

from django.db.models import QuerySet
from pydantic import Field

from gpuplatform.api.query import PageQuery, Query, Several, WholeNumber, Word
from serverless.models import Function, Invocation
from serverless.phases import FunctionPhase, InvocationState


class FunctionsQuery(PageQuery):
    """Filters of the list of functions."""

    phase: Several[FunctionPhase] = Field(
        default=(), description="Return only functions in these phases."
    )
    reason: Several[Word] = Field(
        default=(), description="Return only functions with these reasons."
    )
    spec_name: Several[Word] = Field(
        default=(), alias="specName", description="Return only functions of these GPU specs."
    )
    search: str | None = Field(
        default=None,
        max_length=48,
        description="Return only functions whose name contains this text, ignoring case.",
    )

    def applied_to(self, rows: QuerySet[Function]) -> QuerySet[Function]:
        """Return the rows that match all filters."""
        wanted = {
            "phase__in": self.phase,
            "reason__in": self.reason,
            "spec_name__in": self.spec_name,
            "request_id__icontains": self.search,
        }
        return rows.filter(**{key: value for key, value in wanted.items() if value})


class InvocationsQuery(PageQuery):
    """Filters of the list of invocations."""

    request_id: Several[Word] = Field(
        default=(), alias="requestID", description="Return only invocations of these functions."
    )
    state: Several[InvocationState] = Field(
        default=(), description="Return only invocations in these states."
    )

    def applied_to(self, rows: QuerySet[Invocation]) -> QuerySet[Invocation]:
        """Return the rows that match all filters."""
        wanted = {"function__request_id__in": self.request_id, "state__in": self.state}
        return rows.filter(**{key: value for key, value in wanted.items() if value})


class ResultQuery(Query):
    """The signature of a link to a result."""

    expires: Annotated[int, WholeNumber] = Field(
        description="Time at which the link expires, as a Unix timestamp.", examples=[1769860800]
    )
    sig: str = Field(
        max_length=150,
        description="Signature of the link.",
        examples=["q8Zt0v.0123abcd"],
    )
