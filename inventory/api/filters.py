"""Query parameters of the routes of stock pools and the catalogue."""

from typing import Any, Literal

from django.db.models import QuerySet
from pydantic import Field

from gpuplatform.api.query import DeletionQuery, PageQuery, Query, Several, Word
from inventory.models import GpuSpec, StockPool
from inventory.phases import PoolPhase
from inventory.requests.pools import DEFAULT_NAMESPACE, Namespace


class PoolsQuery(PageQuery):
    """Filters of the list of pools."""

    namespace: Several[Namespace] = Field(default=(), description="Only these namespaces.")
    phase: Several[PoolPhase] = Field(default=(), description="Only these phases.")
    reason: Several[Word] = Field(default=(), description="Only these reasons.")
    spec_name: Several[Word] = Field(
        default=(), alias="specName", description="Only these GPU specs."
    )
    search: str | None = Field(
        default=None,
        max_length=63,
        description="Only pools with this text in their name, ignoring case.",
    )

    def applied_to(self, rows: QuerySet[StockPool]) -> QuerySet[StockPool]:
        """Return the rows that the filters select."""
        wanted = {
            "namespace__in": self.namespace,
            "phase__in": self.phase,
            "reason__in": self.reason,
            "spec_name__in": self.spec_name,
            "name__icontains": self.search,
        }
        return rows.filter(**{key: value for key, value in wanted.items() if value})


class PoolQuery(Query):
    """The namespace of a pool."""

    namespace: Namespace = Field(default=DEFAULT_NAMESPACE, description="Namespace of the pool.")


class DeletePoolQuery(PoolQuery, DeletionQuery):
    """The namespace of a pool, and the operationID of its deletion."""


class SpecsQuery(PageQuery):
    """Filters of the catalogue."""

    search: str | None = Field(
        default=None,
        max_length=63,
        description="Only specs with this text in their name, ignoring case.",
    )
    enabled: Literal["true", "false"] | None = Field(
        default=None, description="Only enabled specs, or only disabled ones."
    )

    def applied_to(self, rows: QuerySet[GpuSpec]) -> QuerySet[GpuSpec]:
        """Return the rows that the filters select."""
        wanted: dict[str, Any] = {"name__icontains": self.search} if self.search else {}
        if self.enabled:
            wanted["is_enabled"] = self.enabled == "true"
        return rows.filter(**wanted)
