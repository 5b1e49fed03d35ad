"""Query parameters and response models of the tenant routes."""

from datetime import datetime
from typing import Any, Self

from django.db.models import QuerySet
from pydantic import Field

from gpuplatform.api.query import PageQuery, Several
from gpuplatform.api.schema import Reply
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.phases import NamespaceOrigin, TenantPhase


class TenantsQuery(PageQuery):
    """Filters of the list of tenants."""

    phase: Several[TenantPhase] = Field(
        default=(), description="Return only tenants in these phases."
    )
    search: str | None = Field(
        default=None,
        max_length=63,
        description="Return only tenants whose name contains this text, ignoring case.",
    )

    def applied_to(self, rows: QuerySet[Tenant]) -> QuerySet[Tenant]:
        """Return the rows that match all filters."""
        wanted: dict[str, Any] = {"phase__in": self.phase, "name__icontains": self.search}
        return rows.filter(**{key: value for key, value in wanted.items() if value})


class TenantFailure(Reply):
    """The error of the last operation on a tenant."""

    code: str = Field(description="Code of the error.", examples=["name_conflict"])
    message: str = Field(
        description="Human-readable error.", examples=["The namespace does not exist."]
    )


class TenantReply(Reply):
    """A tenant."""

    name: str = Field(description="Name of the tenant.", examples=["acme"])
    display_name: str = Field(
        description="Display name of the tenant.", examples=["ACME research"]
    )
    namespace: str = Field(description="Namespace of the tenant.", examples=["tenant-acme"])
    namespace_origin: NamespaceOrigin = Field(
        description="Who created the namespace. Only a `created` one is deleted with the tenant.",
        examples=[NamespaceOrigin.CREATED.value],
    )
    phase: TenantPhase = Field(
        description="Phase of the tenant.", examples=[TenantPhase.ACTIVE.value]
    )
    weight: int = Field(
        description="Weight by which its usage is divided in the capacity queue.", examples=[1]
    )
    failure: TenantFailure | None = Field(
        description="Error of the last operation on the tenant; null if it succeeded.",
        examples=[None],
    )
    created_at: datetime = Field(description="Time at which the creation was accepted.")
    updated_at: datetime = Field(description="Time at which a setting or the phase last changed.")

    @classmethod
    def of(cls, row: Tenant) -> Self:
        """Return the response for a tenant."""
        failure = None
        if row.failure_code:
            failure = TenantFailure(code=row.failure_code, message=row.failure_message)
        return cls(
            name=row.name,
            display_name=row.display_name,
            namespace=row.namespace,
            namespace_origin=NamespaceOrigin(row.namespace_origin),
            phase=TenantPhase(row.phase),
            weight=row.weight,
            failure=failure,
            created_at=row.created_at,
            updated_at=row.updated_at,
        )
