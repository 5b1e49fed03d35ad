"""Writes capacity samples and GPU shortages, and deletes rows past their retention.

Called by periodic tasks.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from django.db import transaction
from django.db.models import Exists, OuterRef, Sum
from django.db.models.functions import Now

from gpuplatform import clock
from gpuplatform.operations.services import RETENTION_DAYS
from units.core.shortage import Shortage
from units.models import CLAIMABLE, CapacitySample, GpuUnit, ShortNode, UnitHistory
from units.selectors import capacity_by_spec, short_nodes

LONGEST_SAMPLE: Final = timedelta(hours=1)
"""Maximum time that one sample covers. After a longer gap, the sample covers no time."""


def capacity_sample() -> None:
    """Insert a sample of the GPU-seconds of ready stock for each GPU spec."""
    with transaction.atomic():
        ready = GpuUnit.objects.filter(CLAIMABLE).order_by()
        gpus = dict(ready.values_list("spec_name").annotate(Sum("gpu")))
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


def short_nodes_update(found: Sequence[Shortage]) -> set[str]:
    """Replace the recorded shortages with `found`, in the transaction of the caller.

    Returns the names of the nodes whose shortage changed.
    """
    differences = set(found) ^ set(short_nodes())
    changed = {shortage.node for shortage in differences}
    ShortNode.objects.filter(name__in=changed).delete()
    ShortNode.objects.bulk_create(
        (
            ShortNode(name=shortage.node, gpus_offered=shortage.offered, gpus_held=shortage.held)
            for shortage in found
            if shortage in differences
        ),
        ignore_conflicts=True,  # If a concurrent comparison inserted it, the next one corrects it.
    )
    return changed


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
