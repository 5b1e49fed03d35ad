"""Writes capacity samples, and deletes rows past their retention.

Called by periodic tasks.
"""

from datetime import timedelta
from typing import Final

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Subquery, Sum
from django.db.models.functions import Coalesce, Now

from gpuplatform import clock
from gpuplatform.operations.services import RETENTION_DAYS
from inventory.models import GpuSpec
from units.models import CLAIMABLE, CapacitySample, GpuUnit, UnitHistory
from units.selectors import capacity_by_spec

LONGEST_SAMPLE: Final = timedelta(hours=1)
"""Maximum time that one sample covers. After a longer gap, the sample covers no time."""


def capacity_sample() -> None:
    """Insert a sample of the GPU-seconds of ready stock for each GPU spec.

    Stock with another resource than the GPU spec in the catalogue is not counted.
    """
    entry = GpuSpec.objects.filter(name=OuterRef("spec_name")).values("resource_name")
    with transaction.atomic():
        ready = GpuUnit.objects.filter(CLAIMABLE).order_by()
        counted = ready.filter(resource_name=Coalesce(Subquery(entry), F("resource_name")))
        gpus = dict(counted.values_list("spec_name").annotate(Sum("gpu")))
        latest = CapacitySample.objects.filter(at__gt=Now() - LONGEST_SAMPLE)
        since = dict(latest.order_by("id").values_list("spec_name", "at"))
        now = clock.now()
        CapacitySample.objects.bulk_create(
            CapacitySample(
                spec_name=spec.name,
                idle_gpu_seconds=gpus.get(spec.name, 0)
                * max(int((now - since.get(spec.name, now)).total_seconds()), 0),
            )
            for spec in capacity_by_spec()
        )


def units_prune() -> int:
    """Delete the rows of deleted units, history entries and samples past their retention.

    The row of a stock unit is kept while its consumer exists, because it names the consumer.
    Returns the number of deleted rows.
    """
    expired = Now() - timedelta(days=RETENTION_DAYS)
    consumers = GpuUnit.objects.filter(uid=OuterRef("consumed_by"), deleted_at__isnull=True)
    deleted = GpuUnit.objects.filter(deleted_at__lt=expired)
    return sum(
        rows.delete()[0]
        for rows in (
            deleted.exclude(Exists(consumers.exclude(uid=""))),
            UnitHistory.objects.filter(at__lt=expired),
            CapacitySample.objects.filter(at__lt=expired),
        )
    )
