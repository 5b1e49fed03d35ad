"""Intervals as units open them."""

import itertools
import uuid
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.usage.core.sights import Sight
from gpuplatform.usage.models import UsageInterval
from gpuplatform.usage.services.intervals import Use, interval_open

_numbers = itertools.count(1)


def use(**changes: Any) -> Use:
    number = next(_numbers)
    columns = {
        "tenant_id": tenant_by_name().pk,
        "unit_uid": str(uuid.uuid4()),
        "unit_name": f"unit-{number}",
        "source_uid": str(uuid.uuid4()),
        "spec_name": "g1.1",
        "product": "",
        "resource_name": "nvidia.com/gpu",
        "gpus": 2,
        "cpu_millis": 4000,
        "memory_mib": 1024,
    }
    return Use(**{**columns, **changes})


def opened(used: Use, begin: datetime | None = None, until: datetime | None = None) -> Any:
    """Open the interval of a unit; move its begin and its last sight."""
    with transaction.atomic():
        interval_open(used)
    row = UsageInterval.objects.get(source_uid=used.source_uid, part=1)
    if begin is not None:
        columns = {"started_at": begin, "seen_at": until or begin, "changed_from": begin}
        UsageInterval.objects.filter(pk=row.pk).update(
            **columns, bound_at=begin, pod_uid="p" if until else ""
        )
        row.refresh_from_db()
    return row


def sight(
    used: Use, bound: datetime, at: datetime, pod: str = "p", *, is_end: bool = False
) -> Sight:
    return Sight(used.unit_uid, pod, bound, at, is_end=is_end)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)
