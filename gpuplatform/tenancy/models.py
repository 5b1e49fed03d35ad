"""Rows of tenants, within which an operationID is unique, and of API tokens."""

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from typing_extensions import override

DEFAULT_TENANT_NAME = "default"


class Tenant(models.Model):
    """A party that owns units and operations. A migration inserts the default tenant."""

    name = models.CharField(
        max_length=63, unique=True, help_text="A DNS label; used in annotations of resources."
    )
    namespace = models.CharField(
        max_length=63, unique=True, help_text="Namespace of the tenant's units."
    )
    created_at = models.DateTimeField(auto_now_add=True, help_text="When it was created.")

    class Meta:
        ordering: ClassVar[list[str]] = ["name"]

    @override
    def __str__(self) -> str:
        return self.name


class Scope(models.TextChoices):
    """The addresses that a token may call."""

    OPERATOR = "operator", "Operator: stock, pools, specs and every job"
    USER = "user", "User: GPU units of the tenant"


class ApiToken(models.Model):
    """A secret with which a program calls the API. Only its digest is stored."""

    tenant = models.ForeignKey(
        Tenant,
        on_delete=models.CASCADE,
        related_name="tokens",
        help_text="The tenant on whose behalf the token calls.",
    )
    name = models.CharField(
        max_length=63, help_text="Purpose of the token; unique within its tenant."
    )
    digest = models.CharField(
        max_length=64, unique=True, editable=False, help_text="SHA-256 of the secret."
    )
    hint = models.CharField(
        max_length=12, editable=False, help_text="First characters of the secret, to recognise it."
    )
    scopes = ArrayField(
        models.CharField(max_length=16, choices=Scope.choices),
        help_text="Addresses that it may call.",
    )
    created_at = models.DateTimeField(auto_now_add=True, help_text="When it was created.")
    expires_at = models.DateTimeField(
        null=True, blank=True, help_text="When it stops being valid; empty: never."
    )
    revoked_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="When it was revoked."
    )
    last_used_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="When it was last used, to the minute."
    )

    class Meta:
        ordering: ClassVar[list[str]] = ["-id"]
        verbose_name = "API token"
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["tenant", "name"], name="api_token_name_is_unique"),
            models.CheckConstraint(
                condition=~models.Q(scopes=[]), name="api_token_may_do_something"
            ),
        ]

    @override
    def __str__(self) -> str:
        return self.name
