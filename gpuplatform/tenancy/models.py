"""Models of tenants, of their members and of API tokens."""

from typing import ClassVar

from django.contrib.auth.models import User
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now
from typing_extensions import override

from gpuplatform.tenancy.limit_models import TenantLimit as TenantLimit  # noqa: PLC0414 - a table
from gpuplatform.tenancy.permissions import Role
from gpuplatform.tenancy.permissions import Scope as Scope  # noqa: PLC0414 - a re-export
from gpuplatform.tenancy.phases import (
    MAX_DISPLAY_NAME,
    MAX_WEIGHT,
    NamespaceOrigin,
    TenantPhase,
)

DEFAULT_TENANT_NAME = "default"
GROUP_MAX = 150
"""Maximum length of the name of a group of the identity provider."""


class Tenant(models.Model):
    """A party that owns units and operations. A migration inserts the default tenant."""

    name = models.CharField(
        max_length=63,
        unique=True,
        help_text="DNS label that identifies the tenant, including in annotations of resources.",
    )
    namespace = models.CharField(
        max_length=63, unique=True, help_text="Namespace of the units of the tenant."
    )
    max_priority = models.PositiveSmallIntegerField(
        default=0,
        db_default=0,
        help_text="Largest priority from 0 to 100 that a request of the tenant may have.",
    )
    display_name = models.CharField(
        max_length=MAX_DISPLAY_NAME,
        blank=True,
        db_default="",
        help_text="Display name of the tenant.",
    )
    phase = models.CharField(
        max_length=16,
        choices=TenantPhase.choices,
        default=TenantPhase.ACTIVE,
        db_default=TenantPhase.ACTIVE,
        help_text="Phase of the tenant.",
    )
    weight = models.PositiveSmallIntegerField(
        default=1,
        db_default=1,
        help_text="Weight from 1 to 100 by which the usage is divided in the capacity queue.",
    )
    namespace_origin = models.CharField(
        max_length=16,
        choices=NamespaceOrigin.choices,
        default=NamespaceOrigin.EXTERNAL,
        db_default=NamespaceOrigin.EXTERNAL,
        help_text="Who created the namespace.",
    )
    namespace_uid = models.CharField(
        max_length=36,
        blank=True,
        db_default="",
        help_text="UID of the namespace. Empty if the platform does not manage the namespace.",
    )
    failure_code = models.CharField(
        max_length=64,
        blank=True,
        db_default="",
        help_text="Code of the error of the last operation. Empty if it succeeded.",
    )
    failure_message = models.TextField(
        blank=True, db_default="", help_text="Human-readable error of the last operation."
    )
    updated_at = models.DateTimeField(
        db_default=Now(), help_text="Time at which a setting or the phase last changed."
    )
    deleted_at = models.DateTimeField(
        null=True, blank=True, help_text="Time at which the tenant was deleted."
    )
    created_at = models.DateTimeField(auto_now_add=True, help_text="Time of creation.")

    class Meta:
        ordering: ClassVar[list[str]] = ["name"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(
                condition=models.Q(max_priority__lte=100), name="tenant_priority_is_valid"
            ),
            models.CheckConstraint(
                condition=models.Q(weight__gte=1, weight__lte=MAX_WEIGHT),
                name="tenant_weight_is_valid",
            ),
            models.CheckConstraint(
                condition=models.Q(phase__in=TenantPhase.values), name="tenant_phase_is_known"
            ),
            models.CheckConstraint(
                condition=models.Q(phase=TenantPhase.DELETED, deleted_at__isnull=False)
                | (~models.Q(phase=TenantPhase.DELETED) & models.Q(deleted_at__isnull=True)),
                name="tenant_deleted_says_when",
            ),
        ]

    @override
    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """The role of a user, or of all users in a group of the identity provider, in a tenant."""

    tenant = models.ForeignKey(
        Tenant, on_delete=models.CASCADE, related_name="memberships", help_text="Tenant."
    )
    user = models.ForeignKey(
        User,
        null=True,
        on_delete=models.CASCADE,
        related_name="memberships",
        help_text="Member. Empty if the membership is of a group.",
    )
    group = models.CharField(
        max_length=GROUP_MAX,
        blank=True,
        help_text="Name of a group of the identity provider. Empty if the member is a user.",
    )
    role = models.CharField(max_length=16, choices=Role.choices, help_text="Role in the tenant.")
    created_at = models.DateTimeField(auto_now_add=True, help_text="Time of creation.")

    class Meta:
        ordering: ClassVar[list[str]] = ["-id"]
        verbose_name = "member"
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["tenant", "user"], name="membership_of_a_user_is_unique"
            ),
            models.UniqueConstraint(
                fields=["tenant", "group"],
                condition=~models.Q(group=""),
                name="membership_of_a_group_is_unique",
            ),
            models.CheckConstraint(
                condition=models.Q(user__isnull=True, group__gt="")
                | models.Q(user__isnull=False, group=""),
                name="membership_is_of_a_user_or_a_group",
            ),
        ]

    @override
    def __str__(self) -> str:
        return member_name(self)


def member_name(row: Membership) -> str:
    """Return the name of a member in the API: a username, or `group:` and the name of a group."""
    return row.user.get_username() if row.user else f"group:{row.group}"


class Identity(models.Model):
    """The account of a user at the identity provider, and its groups at the last login."""

    user = models.OneToOneField(
        User, on_delete=models.CASCADE, related_name="identity", help_text="User."
    )
    issuer = models.CharField(max_length=255, help_text="URL of the identity provider.")
    subject = models.CharField(
        max_length=255, help_text="Identifier of the account, which never changes."
    )
    groups = ArrayField(
        models.CharField(max_length=GROUP_MAX),
        default=list,
        help_text="Groups at the last login.",
    )
    seen_at = models.DateTimeField(help_text="Time of the last login.")

    class Meta:
        verbose_name_plural = "identities"
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["issuer", "subject"], name="identity_is_unique"),
        ]

    @override
    def __str__(self) -> str:
        return self.subject


class ApiToken(models.Model):
    """A token with which a program calls the API. Only the digest of its secret is stored."""

    tenant = models.ForeignKey(
        Tenant,
        on_delete=models.CASCADE,
        related_name="tokens",
        help_text="Tenant on whose behalf the token acts.",
    )
    name = models.CharField(
        max_length=63, help_text="Purpose of the token. Unique within the tenant."
    )
    digest = models.CharField(
        max_length=64, unique=True, editable=False, help_text="SHA-256 digest of the secret."
    )
    hint = models.CharField(
        max_length=12,
        editable=False,
        help_text="First characters of the secret, for identification.",
    )
    scopes = ArrayField(
        models.CharField(max_length=16, choices=Scope.choices),
        help_text="Scopes of the token.",
    )
    owner = models.ForeignKey(
        User,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="api_tokens",
        help_text="Member to whom the token belongs. The role of the member limits it.",
    )
    created_at = models.DateTimeField(auto_now_add=True, help_text="Time of creation.")
    expires_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="Time at which the token expires. Empty if it never expires.",
    )
    revoked_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="Time at which the token was revoked."
    )
    last_used_at = models.DateTimeField(
        null=True,
        blank=True,
        editable=False,
        help_text="Time at which the token was last used, to the minute.",
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
