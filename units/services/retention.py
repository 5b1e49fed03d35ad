"""Forgetting what was kept long enough."""

from datetime import timedelta

from django.db.models import Exists, OuterRef
from django.db.models.functions import Now

from gpuplatform.operations.services import RETENTION_DAYS
from units.models import CapacitySample, GpuUnit, UnitHistory


def units_prune() -> int:
    """Forget units and stock that are gone for long, and old history; return how many rows.

    Stock that a unit which is still there consumed stays: its row says whose that GPU is.
    """
    old = Now() - timedelta(days=RETENTION_DAYS)
    users = GpuUnit.objects.filter(uid=OuterRef("consumed_by"), deleted_at__isnull=True)
    gone = GpuUnit.objects.filter(deleted_at__lt=old).exclude(Exists(users.exclude(uid="")))
    return sum(
        rows.delete()[0]
        for rows in (
            gone,
            UnitHistory.objects.filter(at__lt=old),
            CapacitySample.objects.filter(at__lt=old),
        )
    )
