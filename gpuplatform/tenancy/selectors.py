"""Queries of tenants."""

from django.db.models import QuerySet

from gpuplatform.errors import NotFound, TenantSuspended
from gpuplatform.tenancy.models import DEFAULT_TENANT_NAME, Tenant
from gpuplatform.tenancy.phases import TenantPhase


def tenants_live() -> QuerySet[Tenant]:
    """Return the tenants that are not deleted, newest first."""
    return Tenant.objects.exclude(phase=TenantPhase.DELETED).order_by("-id")


def tenant_by_name(name: str = DEFAULT_TENANT_NAME) -> Tenant:
    """Return the tenant with this name.

    Raises:
        NotFound: If no tenant has this name.
    """
    try:
        return tenants_live().get(name=name)
    except Tenant.DoesNotExist as error:
        msg = f"The tenant '{name}' does not exist. Check the name."
        raise NotFound(msg) from error


def tenant_of(namespace: str) -> Tenant:
    """Return the tenant that owns a namespace.

    Raises:
        NotFound: If the namespace belongs to no tenant.
    """
    found = Tenant.objects.filter(namespace=namespace).first()
    if found is None:
        msg = f"The namespace '{namespace}' belongs to no tenant. Use kubectl instead."
        raise NotFound(msg)
    return found


def tenant_suspended(tenant: Tenant) -> TenantSuspended:
    """Return the error for a write of a tenant that is not active."""
    msg = f"The tenant '{tenant}' is not active, so that it can only read. Ask an operator."
    return TenantSuspended(msg)
