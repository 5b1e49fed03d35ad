"""Tenants: an operationID is unique within one, from the first migration on."""

from typing import ClassVar

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
