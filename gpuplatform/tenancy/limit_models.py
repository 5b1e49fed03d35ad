"""The database model of the limits of tenants."""

from typing import ClassVar

from django.db import models
from typing_extensions import override


class TenantLimit(models.Model):
    """The limit of a tenant for one resource. A resource without a row is not limited."""

    tenant = models.ForeignKey(
        "tenancy.Tenant",
        on_delete=models.CASCADE,
        related_name="limits",
        help_text="Tenant that is limited.",
    )
    resource = models.CharField(
        max_length=80, help_text="Name of the resource, such as `gpus` or `gpus.h100-1g`."
    )
    hard = models.PositiveIntegerField(
        help_text="Number that the tenant may use. A lower value does not stop anything."
    )

    class Meta:
        ordering: ClassVar[list[str]] = ["tenant", "resource"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["tenant", "resource"], name="tenant_limit_is_unique"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.resource} {self.hard}"
