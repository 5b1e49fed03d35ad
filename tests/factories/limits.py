"""Limits of tenants, as the services write them."""

from django.db import transaction

from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.tenancy.services import tenant_limits_replace, tenant_lock_for_change


def limit(tenant: Tenant | None = None, /, **limits: int) -> None:
    """Replace all limits of a tenant, by default the default tenant."""
    limit_all(tenant or tenant_by_name(), limits)


def limit_all(tenant: Tenant, limits: dict[str, int]) -> None:
    """Replace all limits of a tenant, whose names need not be identifiers."""
    with transaction.atomic():
        tenant_lock_for_change(tenant)
        tenant_limits_replace(tenant, limits)
