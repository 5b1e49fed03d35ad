"""Queries of tenants, members and permissions."""

from typing import Final

from django.contrib.auth.models import User
from django.core.exceptions import ObjectDoesNotExist
from django.db.models import Q, QuerySet

from gpuplatform.errors import NotFound, TenantSuspended
from gpuplatform.tenancy.models import DEFAULT_TENANT_NAME, ApiToken, Membership, Tenant
from gpuplatform.tenancy.permissions import (
    ROLE_PERMISSIONS,
    Permission,
    Role,
    permissions_of_scopes,
)
from gpuplatform.tenancy.phases import TenantPhase

OPERATE: Final = "tenancy.operate_apitoken"
"""The permission of the admin to own and to create tokens with the scope `operator`."""
_ROLES: Final = list(Role)


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


def role_of(user: User, tenant: Tenant) -> Role | None:
    """Return the highest role of a user in a tenant, or `None` if the user is not a member.

    The groups are the ones of the last login through the identity provider. A disabled user has no
    role.
    """
    if not user.is_active:
        return None
    of_user = Q(user=user) | Q(group__in=_groups_of(user))
    roles = Membership.objects.filter(of_user, tenant=tenant).values_list("role", flat=True)
    return max((Role(role) for role in roles), key=_ROLES.index, default=None)


def permissions_of_owner(user: User, tenant: Tenant) -> frozenset[Permission]:
    """Return the permissions that the tokens of a user can have in a tenant."""
    of_operators = {Permission.OPERATOR} if user.has_perm(OPERATE) else frozenset[Permission]()
    return _permissions_of_role(user, tenant) | of_operators


def token_permissions(token: ApiToken) -> frozenset[Permission]:
    """Return the permissions of the scopes of a token, limited by the role of its owner."""
    granted, owner = permissions_of_scopes(token.scopes), token.owner
    if owner is None:
        return granted
    allowed = _permissions_of_role(owner, token.tenant) | {Permission.TOKEN}
    if Permission.OPERATOR in granted and owner.has_perm(OPERATE):
        allowed |= {Permission.OPERATOR}
    return granted & allowed


def _permissions_of_role(user: User, tenant: Tenant) -> frozenset[Permission]:
    role = role_of(user, tenant)
    return ROLE_PERMISSIONS[role] if role else frozenset()


def _groups_of(user: User) -> list[str]:
    try:
        groups: list[str] = user.identity.groups
    except ObjectDoesNotExist:
        return []
    return groups
