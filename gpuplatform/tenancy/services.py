"""Limits tenants, sets members, and creates, verifies and revokes API tokens.

The only writer of these tables, except the other columns of tenants, which `gpuplatform.tenants`
writes.
"""

import hashlib
import secrets
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Final

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from gpuplatform import clock
from gpuplatform.errors import FieldError, NameConflict
from gpuplatform.locks import take_turn
from gpuplatform.tenancy.limit_models import TenantLimit
from gpuplatform.tenancy.models import ApiToken, Membership, Tenant
from gpuplatform.tenancy.permissions import Role
from gpuplatform.tenancy.quota import (
    QuotaRequest,
    Usage,
    UsageQuery,
    change_turn,
    limits_changed,
    limits_of,
    quota_check,
    usage_query,
)
from gpuplatform.tenancy.resources import Resource
from gpuplatform.tenancy.token_lookup import token_with_digest, tokens_active

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


def tenant_lock_for_change(tenant: Tenant) -> None:
    """Lock a tenant `FOR UPDATE`, as the first step of a transaction.

    The lock waits for all transactions that have inserted a row that refers to the tenant, whether
    it has limits or not. Two transactions that insert first would deadlock. PostgreSQL grants the
    locks of foreign keys even if another transaction waits for the row. The turn prevents further
    transactions from inserting such rows while this one waits.
    """
    take_turn(change_turn(tenant.pk))
    list(Tenant.objects.select_for_update(of=("self",)).filter(pk=tenant.pk).values_list("pk"))


def tenant_limits_replace(tenant: Tenant, limits: Mapping[str, int]) -> bool:
    """Replace all limits of a tenant, and return whether one changed. Nothing in use is stopped.

    Must be called in a transaction that has called `tenant_lock_for_change`. `limits` must be
    checked with `checked_limits`.
    """
    if limits_of(tenant.pk) == dict(limits):
        return False
    rows = TenantLimit.objects.filter(tenant=tenant)
    rows.exclude(resource__in=limits).delete()
    TenantLimit.objects.bulk_create(
        (TenantLimit(tenant=tenant, resource=name, hard=hard) for name, hard in limits.items()),
        update_conflicts=True,
        unique_fields=["tenant", "resource"],
        update_fields=["hard"],
    )
    limits_changed(tenant.pk)
    return True


def tokens_used(tenants: Collection[int]) -> list[UsageQuery]:
    """Return the query for the number of active tokens."""
    rows = ApiToken.objects.filter(tokens_active(), tenant__in=tenants)
    return [usage_query(rows, Resource.TOKENS)]


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
        QuotaExceeded: If the tenant has the maximum number of tokens.
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
            _check_tokens(token)
    except IntegrityError as error:
        msg = f"The tenant '{tenant}' already has a token '{name}'. Choose another name."
        raise NameConflict(msg, details=[FieldError("name", "Is already in use.")]) from error
    return token, secret


def _check_tokens(token: ApiToken) -> None:
    tenant = token.tenant

    def count() -> Usage:
        others = ApiToken.objects.filter(tokens_active(), tenant=tenant)
        return Usage(others.exclude(pk=token.pk).count())

    quota_check(tenant, limits_of(tenant.pk), [QuotaRequest(Resource.TOKENS, 1, count)])


def token_used(secret: str) -> ApiToken | None:
    """Return the valid token with this secret, if any, and record its use once a minute."""
    token = token_with_digest(_digest(secret))
    if token is not None and _is_old(token.last_used_at):
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=Now())
    return token


def token_revoke(token: ApiToken) -> bool:
    """Revoke a token, and return whether it was not already revoked."""
    active = ApiToken.objects.filter(pk=token.pk, revoked_at__isnull=True)
    return bool(active.update(revoked_at=Now()))


def tokens_delete(tenant: int) -> None:
    """Delete all tokens of a tenant, which is deleted."""
    ApiToken.objects.filter(tenant=tenant).delete()


def _digest(secret: str) -> str:
    # A secret with 256 random bits cannot be guessed, so a slow hash is not necessary.
    return hashlib.sha256(secret.encode()).hexdigest()


def _is_old(at: datetime | None) -> bool:
    return at is None or clock.now() - at > USE_RECORDED_EVERY
