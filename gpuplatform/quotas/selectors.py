"""Reads the limits of tenants with their use."""

from collections.abc import Iterator
from dataclasses import dataclass

from gpuplatform.tenancy.limit_models import TenantLimit
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.quota import Usage, limits_of, usage_of


@dataclass(frozen=True, slots=True)
class TenantState:
    """The limits of a tenant and what it uses, by resource."""

    name: str
    limits: dict[str, int]
    used: dict[str, int]
    """What is in use. A resource that is neither used nor limited is absent."""
    releasing: dict[str, int]
    """The parts of `used` that are being released."""


def tenant_state(tenant: Tenant) -> TenantState:
    """Return the limits of a tenant and what it uses."""
    limits, usage = limits_of(tenant.pk), usage_of([tenant.pk])[tenant.pk]
    names = sorted({*limits, *usage})
    used = {name: usage.get(name, Usage()) for name in names}
    return TenantState(
        name=tenant.name,
        limits=limits,
        used={name: one.used for name, one in used.items()},
        releasing={name: one.releasing for name, one in used.items() if one.releasing},
    )


@dataclass(frozen=True, slots=True)
class LimitState:
    """A limit of a tenant and what it uses of the resource."""

    tenant: str
    resource: str
    hard: int
    used: int


def limit_states(most: int) -> Iterator[LimitState]:
    """Yield at most `most` limits of all tenants with their use, in the order of the tenants."""
    rows = TenantLimit.objects.order_by("tenant_id", "resource")
    limits = list(rows.values_list("tenant_id", "tenant__name", "resource", "hard")[:most])
    usage = usage_of({tenant for tenant, *_ in limits}) if limits else {}
    for tenant, name, resource, hard in limits:
        used = usage[tenant].get(resource, Usage()).used
        yield LimitState(name, resource, hard, used)
