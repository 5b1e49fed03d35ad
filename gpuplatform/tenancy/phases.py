"""The phases of tenants, and the bounds of their settings."""

from types import MappingProxyType
from typing import Final

from django.db.models import TextChoices

from gpuplatform.lifecycle.transition import PhaseTable

MAX_WEIGHT: Final = 100
"""The largest weight of a tenant."""

MAX_DISPLAY_NAME: Final = 100
"""The maximum number of characters of the display name of a tenant."""


class TenantPhase(TextChoices):
    """Phase of a tenant. The transaction that accepts an operation changes it.

    ::

        Pending ──created──> Active <──resume/suspend──> Suspended
                               └────────> Deleting <────────┘
                                             └──namespace deleted──> Deleted

    A deletion that fails returns to Suspended.
    """

    PENDING = "Pending", "Pending"
    ACTIVE = "Active", "Active"
    SUSPENDED = "Suspended", "Suspended"
    DELETING = "Deleting", "Deleting"
    DELETED = "Deleted", "Deleted"


TENANT_PHASES: MappingProxyType[TenantPhase, str] = MappingProxyType(
    {
        TenantPhase.PENDING: "The namespace of the tenant is being created.",
        TenantPhase.ACTIVE: "The tenant can create and start units.",
        TenantPhase.SUSPENDED: "An operator suspended the tenant: its tokens can only read, and"
        " its units are stopped.",
        TenantPhase.DELETING: "The namespace of the tenant is being deleted.",
        TenantPhase.DELETED: "The tenant is deleted. Its operations are kept for 30 days.",
    }
)
"""The meaning of each phase."""

TENANT_TRANSITIONS: PhaseTable = MappingProxyType(
    {
        TenantPhase.PENDING: frozenset({TenantPhase.ACTIVE}),
        TenantPhase.ACTIVE: frozenset({TenantPhase.SUSPENDED, TenantPhase.DELETING}),
        TenantPhase.SUSPENDED: frozenset({TenantPhase.ACTIVE, TenantPhase.DELETING}),
        TenantPhase.DELETING: frozenset({TenantPhase.SUSPENDED, TenantPhase.DELETED}),
        TenantPhase.DELETED: frozenset(),
    }
)


class NamespaceOrigin(TextChoices):
    """The creator of a tenant's namespace, which determines whether a deletion deletes it."""

    EXTERNAL = "external", "Managed outside of the platform"
    """The manifests of the installation manage the namespace and its objects."""
    CREATED = "created", "Created by the platform"
    ADOPTED = "adopted", "Adopted by the platform"
    """An operator named an existing namespace. The platform manages its own objects in it."""
