"""Row locks of tenants, which order accepted writes and changes of the phase of a tenant.

A write holds `KEY SHARE` from before its first row until its commit, and changes of the phase take
`FOR UPDATE`, so that either the write sees the new phase, or the change sees what was written
(rules `insertfirst` and `phaselock` of the model of the capacity queue). The foreign keys do not
hold this lock: they are deferred, and take it only at the commit.
"""

from collections.abc import Collection
from typing import Final

from django.db import connection

from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.phases import TenantPhase
from gpuplatform.tenancy.selectors import tenant_suspended

_SHARE: Final = "SELECT phase FROM tenancy_tenant WHERE id = %s FOR KEY SHARE"
_CHANGE: Final = "SELECT id FROM tenancy_tenant WHERE id = %s FOR UPDATE"


def share_tenant(tenant: int) -> TenantPhase:
    """Return the current phase of a tenant, which cannot change until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute(_SHARE, [tenant])
        found = cursor.fetchone()
    return TenantPhase(found[0]) if found else TenantPhase.DELETED


def share_active_tenant(tenant: Tenant) -> None:
    """Share the lock of a tenant that begins something in this transaction.

    Raises:
        TenantSuspended: If the tenant is not active.
    """
    if share_tenant(tenant.pk) != TenantPhase.ACTIVE:
        raise tenant_suspended(tenant)


def lock_tenant(tenant: int, *, shared: Collection[int] = ()) -> None:
    """Wait for the writes of a tenant in progress, and lock it against others.

    Must be called before the transaction inserts anything (rule `putfirst`). `shared` are tenants
    whose lock the transaction shares later. All locks are taken in the order of the ids.
    """
    with connection.cursor() as cursor:
        for number in sorted({tenant, *shared}):
            cursor.execute(_CHANGE if number == tenant else _SHARE, [number])
