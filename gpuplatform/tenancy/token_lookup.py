"""Reads the token of a request, with its tenant and its owner."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, TypeVar

from django.contrib.auth.models import User
from django.db import DEFAULT_DB_ALIAS
from django.db.models import Model, Q, QuerySet
from django.db.models.functions import Now

from gpuplatform.postgresql.compiled import CompiledQuery
from gpuplatform.tenancy.models import ApiToken, Identity, Tenant
from gpuplatform.tenancy.phases import TenantPhase

ModelT = TypeVar("ModelT", bound=Model)


def tokens_active() -> Q:
    """Return the condition of tokens that can be used."""
    return Q(revoked_at__isnull=True) & (Q(expires_at__isnull=True) | Q(expires_at__gt=Now()))


def token_with_digest(digest: str) -> ApiToken | None:
    """Return the active token with this digest, with its tenant and owner in one query."""
    row = _QUERY.first(digest)
    if row is None:
        return None
    values = iter(row)
    token, tenant = _next(ApiToken, values), _next(Tenant, values)
    token.tenant = tenant
    if token.owner_id is not None:
        token.owner, identity = _next(User, values), _next(Identity, values)
        if identity.pk is not None:
            token.owner.identity = identity
    return token


def _columns(model: type[Model]) -> list[str]:
    # Requests do not check passwords, so their hashes are not read.
    fields = model._meta.concrete_fields  # noqa: SLF001 - public API
    return [field.attname for field in fields if field.name != "password"]


def _next(model: type[ModelT], values: Iterator[Any]) -> ModelT:
    """Return an object of the model from the next columns of a row."""
    names = _columns(model)
    return model.from_db(DEFAULT_DB_ALIAS, names, list(islice(values, len(names))))


def _active_tokens(digest: str) -> QuerySet[ApiToken, tuple[Any, ...]]:
    parts = {"": ApiToken, "tenant__": Tenant, "owner__": User, "owner__identity__": Identity}
    names = [prefix + name for prefix, model in parts.items() for name in _columns(model)]
    rows = ApiToken.objects.filter(tokens_active(), digest=digest)
    return rows.exclude(tenant__phase=TenantPhase.DELETED).values_list(*names)


_QUERY: Final = CompiledQuery(_active_tokens)
