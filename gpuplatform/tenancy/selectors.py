"""Queries of tenants."""

from gpuplatform.errors import NotFound
from gpuplatform.tenancy.models import DEFAULT_TENANT_NAME, Tenant


def tenant_by_name(name: str = DEFAULT_TENANT_NAME) -> Tenant:
    """Return the tenant with this name.

    Raises:
        NotFound: If no tenant has this name.
    """
    try:
        return Tenant.objects.get(name=name)
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
