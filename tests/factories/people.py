"""Users, members and tokens of tenants."""

from typing import Any

from django.contrib.auth.models import User

from gpuplatform import clock
from gpuplatform.tenancy.models import Identity, Tenant
from gpuplatform.tenancy.permissions import Role, Scope
from gpuplatform.tenancy.services import member_set, token_create
from tests.fakes.api import Api


def member(tenant: Tenant, name: str, role: Role | None) -> User:
    """Create a user, with a role in a tenant."""
    user, _ = User.objects.get_or_create(username=name)
    if role is not None:
        member_set(tenant=tenant, user=user, group="", role=role)
    return user


def identity(user: User, *groups: str) -> Identity:
    """Create the account of a user at the identity provider."""
    return Identity.objects.create(
        user=user,
        issuer="https://idp.example.com",
        subject=f"subject-of-{user.username}",
        groups=list(groups),
        seen_at=clock.now(),
    )


def api_of(tenant: Tenant, *scopes: str, owner: User | None = None, name: str = "") -> Api:
    """Return a client with a new token; by default with all scopes of tenants."""
    given = scopes or (Scope.USER, Scope.ADMIN)
    number = tenant.tokens.count()
    _, secret = token_create(
        tenant=tenant, name=name or f"token-{number}", scopes=given, owner=owner
    )
    return with_token(secret)


def with_token(secret: str) -> Api:
    """Return a client that sends this token."""
    api = Api()
    defaults: dict[str, Any] = api.client.defaults
    defaults["HTTP_AUTHORIZATION"] = f"Bearer {secret}"
    return api
