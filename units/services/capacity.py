"""Keeping how the units of each GPU spec stood."""

from datetime import timedelta
from typing import Final

from django.db import transaction
from django.db.models import Sum
from django.db.models.functions import Now

from gpuplatform import clock
from units.models import CLAIMABLE, CapacitySample, GpuUnit
from units.selectors import capacity_by_spec

LONGEST_SAMPLE: Final = timedelta(hours=1)
"""Nothing is said of what lies further back: samples were not taken then."""


def capacity_sample() -> None:
    """Write down how each spec stands, and the GPU-seconds that its ready stock held since."""
    with transaction.atomic():
        ready = GpuUnit.objects.filter(CLAIMABLE).order_by()
        gpus = dict(ready.values_list("spec_name").annotate(Sum("gpu")))
        latest = CapacitySample.objects.filter(at__gt=Now() - LONGEST_SAMPLE)
        since = dict(latest.order_by("id").values_list("spec_name", "at"))
        now = clock.now()
        CapacitySample.objects.bulk_create(
            CapacitySample(
                spec_name=spec.spec_name,
                ready=spec.ready,
                starting=spec.starting,
                failed=spec.failed,
                claimed=spec.claimed,
                active=spec.active,
                idle_gpu_seconds=gpus.get(spec.spec_name, 0)
                * max(int((now - since.get(spec.spec_name, now)).total_seconds()), 0),
            )
            for spec in capacity_by_spec()
        )
