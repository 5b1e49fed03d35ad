"""Query parameters of the stock pool and GPU spec routes."""

from typing import Any, Literal

from django.db.models import QuerySet
from pydantic import Field
from typing_extensions import override

from gpuplatform.api.query import DeletionQuery, PageQuery, Query, Several
from gpuplatform.formats.namespaces import POOL_NAMESPACE
from gpuplatform.operations.api.resources import ResourcesQuery, RowT
from inventory.models import GpuSpec
from inventory.phases import PoolPhase
from inventory.requests.pools import Namespace


class PoolsQuery(ResourcesQuery):
    """Filters of the list of stock pools."""

    namespace: Several[Namespace] = Field(
        default=(), description="Return only stock pools in these namespaces."
    )
    phase: Several[PoolPhase] = Field(
        default=(), description="Return only stock pools in these phases."
    )

    @override
    def applied_to(self, rows: QuerySet[RowT]) -> QuerySet[RowT]:
        """Return the rows that match all filters."""
        found = super().applied_to(rows)
        return found.filter(namespace__in=self.namespace) if self.namespace else found


class PoolQuery(Query):
    """The namespace of a stock pool."""

    namespace: Namespace = Field(
        default=POOL_NAMESPACE, description="Namespace of the stock pool."
    )


class DeletePoolQuery(PoolQuery, DeletionQuery):
    """The namespace of a stock pool and the operationID of its deletion."""


class SpecsQuery(PageQuery):
    """Filters of the list of GPU specs."""

    search: str | None = Field(
        default=None,
        max_length=63,
        description="Return only GPU specs whose name contains this text, ignoring case.",
    )
    enabled: Literal["true", "false"] | None = Field(
        default=None,
        description="Return only GPU specs that are enabled (`true`) or disabled (`false`).",
    )

    def applied_to(self, rows: QuerySet[GpuSpec]) -> QuerySet[GpuSpec]:
        """Return the rows that match all filters."""
        wanted: dict[str, Any] = {"name__icontains": self.search} if self.search else {}
        if self.enabled:
            wanted["is_enabled"] = self.enabled == "true"
        return rows.filter(**wanted)
