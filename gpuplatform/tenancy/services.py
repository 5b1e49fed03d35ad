"""Making, using and taking back API tokens. The only writer of `ApiToken`."""

import hashlib
import secrets
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.db.models.functions import Now

from gpuplatform import clock
from gpuplatform.errors import FieldError, NameConflict
from gpuplatform.tenancy.models import ApiToken, Tenant

TOKEN_PREFIX: Final = "gpu_"  # noqa: S105 - not a secret; makes a leaked one findable by scanners
SECRET_BYTES: Final = 32
HINT_LENGTH: Final = 8
NOTED_EVERY: Final = timedelta(minutes=1)


def token_create(
    *, tenant: Tenant, name: str, scopes: Collection[str], expires_at: datetime | None = None
) -> tuple[ApiToken, str]:
    """Make a token; return it with its secret, which is shown once and kept nowhere.

    Raises:
        NameConflict: the tenant has a token of that name.
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
            )
    except IntegrityError as error:
        msg = f"The tenant '{tenant}' has a token '{name}'. Choose another name."
        raise NameConflict(msg, details=[FieldError("name", "Is in use.")]) from error
    return token, secret


def token_used(secret: str) -> ApiToken | None:
    """Return the valid token with that secret and note its use, at most once a minute."""
    valid = Q(expires_at__isnull=True) | Q(expires_at__gt=Now())
    tokens = ApiToken.objects.filter(valid, revoked_at__isnull=True, digest=_digest(secret))
    token = tokens.select_related("tenant").first()
    if token is not None and _is_old(token.last_used_at):
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=Now())
    return token


def token_revoke(token: ApiToken) -> bool:
    """Take a token back for good; say whether it was valid until now."""
    open_ = ApiToken.objects.filter(pk=token.pk, revoked_at__isnull=True)
    return bool(open_.update(revoked_at=Now()))


def _digest(secret: str) -> str:
    # 256 random bits need no slow hash: nothing shorter than all of them can be guessed.
    return hashlib.sha256(secret.encode()).hexdigest()


def _is_old(at: datetime | None) -> bool:
    return at is None or clock.now() - at > NOTED_EVERY
