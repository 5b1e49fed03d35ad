"""Tenants, within which an operationID is unique, and the tokens that programs call with."""

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from typing_extensions import override

DEFAULT_TENANT_NAME = "default"


class Tenant(models.Model):
    """A party that owns units and operations. The migration makes the default one."""

    name = models.CharField(
        max_length=63, unique=True, help_text="A DNS label; part of annotations in the cluster."
    )
    namespace = models.CharField(
        max_length=63, unique=True, help_text="The namespace in which the tenant's units live."
    )
    created_at = models.DateTimeField(auto_now_add=True, help_text="When it was made.")

    class Meta:
        ordering: ClassVar[list[str]] = ["name"]

    @override
    def __str__(self) -> str:
        return self.name


class Scope(models.TextChoices):
    """What a caller may do."""

    OPERATOR = "operator", "Operator: stock, pools, specs and every job"
    USER = "user", "User: GPU units of the tenant"


class ApiToken(models.Model):
    """A secret that a program calls the API with. Only its digest is kept."""

    tenant = models.ForeignKey(
        Tenant, on_delete=models.CASCADE, related_name="tokens", help_text="On whose behalf."
    )
    name = models.CharField(max_length=63, help_text="What it is for; unique in its tenant.")
    digest = models.CharField(
        max_length=64, unique=True, editable=False, help_text="SHA-256 of the secret."
    )
    hint = models.CharField(
        max_length=12, editable=False, help_text="How the secret begins, to recognise it."
    )
    scopes = ArrayField(
        models.CharField(max_length=16, choices=Scope.choices), help_text="What it may do."
    )
    created_at = models.DateTimeField(auto_now_add=True, help_text="When it was made.")
    expires_at = models.DateTimeField(
        null=True, blank=True, help_text="From then on it is refused; empty: never."
    )
    revoked_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="When it was taken back."
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
