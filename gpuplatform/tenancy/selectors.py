"""Queries of tenants."""

from gpuplatform.errors import NotFound
from gpuplatform.tenancy.models import DEFAULT_TENANT_NAME, Tenant


def tenant_by_name(name: str = DEFAULT_TENANT_NAME) -> Tenant:
    """Return the tenant of that name, by default the default tenant.

    Raises:
        NotFound: no tenant has that name.
    """
    try:
        return Tenant.objects.get(name=name)
    except Tenant.DoesNotExist as error:
        msg = f"The tenant '{name}' does not exist."
        raise NotFound(msg) from error


def tenant_of(namespace: str) -> Tenant:
    """Return the tenant of a namespace.

    Raises:
        NotFound: the namespace belongs to no tenant.
    """
    found = Tenant.objects.filter(namespace=namespace).first()
    if found is None:
        msg = f"The namespace '{namespace}' belongs to no tenant. Use kubectl there."
        raise NotFound(msg)
    return found
