"""Limits tenants, sets members, and creates, verifies and revokes API tokens.

The only writer of these tables.
"""

import hashlib
import secrets
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.db.models.functions import Now

from gpuplatform import clock
from gpuplatform.errors import FieldError, NameConflict
from gpuplatform.tenancy.models import ApiToken, Membership, Tenant
from gpuplatform.tenancy.permissions import Role

TOKEN_PREFIX: Final = "gpu_"  # noqa: S105 - not a secret; lets scanners find leaked tokens
SECRET_BYTES: Final = 32
HINT_LENGTH: Final = 8
USE_RECORDED_EVERY: Final = timedelta(minutes=1)


def tenant_limit_priority(*, tenant: Tenant, most: int) -> bool:
    """Set the largest priority of requests of a tenant, and return whether it was another one.

    The priority of requests that wait does not change.
    """
    others = Tenant.objects.filter(pk=tenant.pk).exclude(max_priority=most)
    return bool(others.update(max_priority=most))


def member_set(*, tenant: Tenant, user: User | None, group: str, role: Role) -> Membership:
    """Set the role of a user or of a group of the identity provider, and return the membership.

    Exactly one of `user` and `group` is given.
    """
    row, _ = Membership.objects.update_or_create(
        tenant=tenant, user=user, group=group, defaults={"role": role}
    )
    return row


def member_delete(membership: Membership) -> None:
    """Delete a membership. The tokens of the user lose the permissions of the role immediately."""
    Membership.objects.filter(pk=membership.pk).delete()


def token_create(
    *,
    tenant: Tenant,
    name: str,
    scopes: Collection[str],
    expires_at: datetime | None = None,
    owner: User | None = None,
) -> tuple[ApiToken, str]:
    """Create a token, and return it with its secret. Only the digest of the secret is stored.

    The role of the owner, if any, limits the permissions of the token.

    Raises:
        NameConflict: If the tenant already has a token with this name.
    """
    secret = TOKEN_PREFIX + secrets.token_urlsafe(SECRET_BYTES)
    try:
        with transaction.atomic():
            token = ApiToken.objects.create(
                tenant=tenant,
                name=name,
                digest=_digest(secret),
                hint=secret[:HINT_LENGTH],
                scopes=sorted(scopes),
                expires_at=expires_at,
                owner=owner,
            )
    except IntegrityError as error:
        msg = f"The tenant '{tenant}' already has a token '{name}'. Choose another name."
        raise NameConflict(msg, details=[FieldError("name", "Is already in use.")]) from error
    return token, secret


def token_used(secret: str) -> ApiToken | None:
    """Return the valid token with this secret, if any, and record its use once a minute."""
    valid = Q(expires_at__isnull=True) | Q(expires_at__gt=Now())
    tokens = ApiToken.objects.filter(valid, revoked_at__isnull=True, digest=_digest(secret))
    token = tokens.select_related("tenant", "owner__identity").first()
    if token is not None and _is_old(token.last_used_at):
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=Now())
    return token


def token_revoke(token: ApiToken) -> bool:
    """Revoke a token, and return whether it was not already revoked."""
    active = ApiToken.objects.filter(pk=token.pk, revoked_at__isnull=True)
    return bool(active.update(revoked_at=Now()))


def _digest(secret: str) -> str:
    # A secret with 256 random bits cannot be guessed, so a slow hash is not necessary.
    return hashlib.sha256(secret.encode()).hexdigest()


def _is_old(at: datetime | None) -> bool:
    return at is None or clock.now() - at > USE_RECORDED_EVERY
