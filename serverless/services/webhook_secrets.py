"""Secrets with which the webhooks of a function are signed.

The database contains only a salt. The key is derived from the salt and the secret key of the
installation, so a copy of the database is not sufficient to sign a webhook. A secret is returned
when it is created, and never again.
"""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils.crypto import salted_hmac

from gpuplatform.audit.models import Outcome
from gpuplatform.audit.services.entries import Entry, entry_insert
from gpuplatform.errors import FieldError, PhaseConflict
from gpuplatform.formats.model import invalid_spec
from gpuplatform.tenancy.models import Tenant
from serverless.core.webhooks import literal_address, may_connect, secret_text
from serverless.models import Function, WebhookSecret
from serverless.requests import WebhookSecretCreate
from serverless.selectors import function_named
from serverless.services.names import FUNCTION_KIND

MAX_SECRETS: Final = 3
"""Maximum number of secrets of a function that are valid at the same time."""

_VALID = Q(expires_at__isnull=True) | Q(expires_at__gt=Now())


@dataclass(frozen=True, slots=True)
class CreatedSecret:
    """A new secret of a function, and the time at which the earlier ones expire."""

    secret: str
    created_at: datetime
    previous_expires_at: datetime | None


def webhook_secret_create(
    *, tenant: Tenant, request_id: str, body: WebhookSecretCreate
) -> CreatedSecret:
    """Create a secret, which signs the webhooks in addition to the earlier secrets.

    The earlier secrets expire after a time, but at most `MAX_SECRETS` are valid together.

    Raises:
        NotFound: If the function does not exist.
        PhaseConflict: If the function is being deleted.
    """
    with transaction.atomic():
        rows = Function.objects.select_for_update().filter(tenant=tenant, deleted_at__isnull=True)
        function = function_named(rows, request_id)
        if function.deletion_requested_at:
            raise PhaseConflict(f"The function '{request_id}' is being deleted.")
        function.webhook_secrets.exclude(_VALID).delete()
        created = WebhookSecret.objects.create(function=function, salt=secrets.token_hex(16))
        earlier = _valid(function).exclude(pk=created.pk)
        overlap = timedelta(seconds=body.previous_expires_in_seconds)
        until = created.created_at + overlap
        earlier.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=until)).update(
            expires_at=until
        )
        kept = earlier.order_by("-id")[: MAX_SECRETS - 1].values("pk")
        earlier.exclude(pk__in=kept).update(expires_at=Now())
        has_earlier = earlier.exists()
        entry_insert(
            Entry(
                outcome=Outcome.ACCEPTED,
                verb="webhook-secret",
                tenant=tenant.name,
                kind=FUNCTION_KIND,
                namespace=tenant.namespace,
                name=request_id,
            )
        )
    return CreatedSecret(
        secret_text(_key(created)), created.created_at, until if has_earlier else None
    )


def signing_keys(function: Function) -> list[bytes]:
    """Return the keys of the valid secrets of a function, the newest first."""
    return [_key(secret) for secret in _valid(function)]


def webhook_url_check(function: Function, url: str) -> None:
    """Check that a webhook to the URL can be signed and sent; an empty URL means no webhook.

    The addresses of a name are checked each time the webhook is sent.

    Raises:
        InvalidSpec: If webhooks may not be sent to the address in the URL.
        PhaseConflict: If the function has no secret.
    """
    if not url:
        return
    address = literal_address(url)
    if address is not None and not may_connect(address, settings.WEBHOOK_NETWORKS):
        message = "Must not contain an address that is not public."
        raise invalid_spec([FieldError("onDone.url", message)])
    if not _valid(function).exists():
        msg = (
            f"The function '{function.request_id}' has no webhook secret. Create one with POST"
            f" /api/v1/serverless/functions/{function.request_id}/webhook-secret."
        )
        raise PhaseConflict(msg)


def _valid(function: Function) -> QuerySet[WebhookSecret]:
    return function.webhook_secrets.filter(_VALID).order_by("-id")


def _key(secret: WebhookSecret) -> bytes:
    value = f"{secret.function_id}/{secret.salt}"
    return salted_hmac("serverless.webhook", value, algorithm="sha256").digest()
