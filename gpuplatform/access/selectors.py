"""Queries of members and tokens, restricted to what a caller may see."""

from typing import Final

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from gpuplatform.errors import NotFound
from gpuplatform.postgresql.tenant_rows import all_rows
from gpuplatform.tenancy.callers import Caller
from gpuplatform.tenancy.models import ApiToken, Membership, Tenant
from gpuplatform.tenancy.permissions import Permission

GROUP_PREFIX: Final = "group:"
"""The prefix of a group of the identity provider. No username contains a colon."""


def members_of(tenant: Tenant) -> QuerySet[Membership]:
    """Return the members of a tenant."""
    return Membership.objects.filter(tenant=tenant).select_related("user")


@all_rows()
def subject_of(name: str) -> tuple[User | None, str]:
    """Return the user or the group with the name of a member: exactly one of them.

    Raises:
        NotFound: If no user has this name.
    """
    if name.startswith(GROUP_PREFIX):
        return None, name.removeprefix(GROUP_PREFIX)
    user = User.objects.filter(username=name).first()
    if user is None:
        msg = f"The user '{name}' does not exist. The user must log in once, or be created."
        raise NotFound(msg)
    return user, ""


def member_named(tenant: Tenant, name: str) -> Membership:
    """Return the member of a tenant with this name.

    Raises:
        NotFound: If the tenant has no such member.
    """
    if name.startswith(GROUP_PREFIX):
        wanted = Q(user=None, group=name.removeprefix(GROUP_PREFIX))
    else:
        wanted = Q(user__username=name)
    row = members_of(tenant).select_for_update(of=("self",)).filter(wanted).first()
    if row is None:
        msg = f"The tenant '{tenant}' has no member '{name}'. List the members."
        raise NotFound(msg)
    return row


def visible_tokens(caller: Caller) -> QuerySet[ApiToken]:
    """Return the tokens of the caller's tenant: all for admins, otherwise the caller's own ones.

    The own tokens are the token of the request and the tokens of its owner.
    """
    tokens = ApiToken.objects.filter(tenant=caller.tenant).select_related("owner")
    if caller.may(Permission.ADMIN) or caller.token is None:
        return tokens
    own = Q(pk=caller.token.pk)
    if caller.token.owner_id is not None:
        own |= Q(owner=caller.token.owner_id)
    return tokens.filter(own)
