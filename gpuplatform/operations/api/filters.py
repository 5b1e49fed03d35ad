"""Query parameters of the routes of operations."""

from datetime import timedelta
from typing import Annotated

from django.db.models import QuerySet
from django.db.models.functions import Now
from pydantic import AfterValidator, Field

from gpuplatform.api.query import PageQuery, Query, Several, WholeNumber
from gpuplatform.operations.api.serializers import with_kinds
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationPhase
from gpuplatform.operations.registry import kind_names
from gpuplatform.operations.selectors import MAX_SEARCHED, operations_with


def _known_kind(text: str) -> str:
    if text not in kind_names():
        msg = f"Must be one of {', '.join(kind_names())}."
        raise ValueError(msg)
    return text


_Kind = Annotated[str, AfterValidator(_known_kind), Field(json_schema_extra=with_kinds)]


class TenantQuery(Query):
    """The tenant of the operations, for operators."""

    tenant: str | None = Field(
        default=None,
        max_length=63,
        description="Name of the tenant that owns the operation. Defaults to the caller's tenant.",
        examples=["default"],
    )


class OperationsQuery(PageQuery):
    """Filters of a list of operations."""

    kind: Several[_Kind] = Field(
        default=(),
        description="Return only operations of these kinds.",
        examples=[["stockpool.create"]],
    )
    phase: Several[OperationPhase] = Field(
        default=(), description="Return only operations in these phases."
    )
    object_kind: str | None = Field(
        default=None,
        alias="objectKind",
        max_length=32,
        description="Return only operations on objects of this kind.",
        examples=["GPUUnit"],
    )
    object_name: str | None = Field(
        default=None,
        alias="objectName",
        max_length=253,
        description="Return only operations on objects with exactly this name.",
        examples=["trainer"],
    )
    max_age_seconds: Annotated[int, Field(ge=1, le=10**9), WholeNumber] | None = Field(
        default=None,
        alias="maxAgeSeconds",
        description="Return only operations that were accepted within this number of seconds.",
        examples=[3600],
    )
    search: str | None = Field(
        default=None,
        max_length=128,
        description="Return only operations whose operationID or object name contains this text,"
        f" ignoring case. Searches the newest {MAX_SEARCHED:,} operations.",
    )

    def applied_to(self, rows: QuerySet[Operation]) -> QuerySet[Operation]:
        """Return the rows that match the filters."""
        wanted = {
            "kind__in": self.kind,
            "phase__in": self.phase,
            "object_kind": self.object_kind,
            "object_name": self.object_name,
        }
        rows = rows.filter(**{key: value for key, value in wanted.items() if value})
        if self.max_age_seconds:
            rows = rows.filter(created_at__gt=Now() - timedelta(seconds=self.max_age_seconds))
        return operations_with(rows, self.search) if self.search else rows


class JobsQuery(TenantQuery, OperationsQuery):
    """Filters of the list of a tenant's operations, for operators."""
