"""Finds inconsistencies of the usage ledger, for `manage.py check_consistency`. Read-only."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from django.db.models import Count, Exists, OuterRef, Q
from django.db.models.functions import Coalesce, Least

from gpuplatform import clock
from gpuplatform.formats.quantity import Quantity
from gpuplatform.operations.consistency import Inconsistency
from gpuplatform.usage.core.totals import Charge, most_charged
from gpuplatform.usage.models import UsageEpoch, UsageInterval
from inventory.models import Node
from inventory.selectors import node_records_known
from units.models import GpuUnit
from units.phases import UnitRole

CHECKED: Final = timedelta(minutes=10)
"""The last period whose charges are compared with the capacity of the nodes, which was not larger
in the meantime unless nodes were removed."""


def usage_inconsistencies() -> Iterator[Inconsistency]:
    """Yield the inconsistencies of intervals with consumed stock and with the capacity."""
    yield from _first_intervals()
    yield from _excess()


def _first_intervals() -> Iterator[Inconsistency]:
    """Yield consumed stock units that have no first interval, or several ones.

    Stock that was consumed before the first epoch has none.
    """
    begun = UsageEpoch.objects.order_by("begun_at").values("begun_at")[:1]
    first = UsageInterval.objects.filter(source_uid=OuterRef("uid"), part=1)
    consumers = GpuUnit.objects.filter(uid=OuterRef("consumed_by"), tenant__isnull=False)
    consumed = GpuUnit.objects.filter(role=UnitRole.STOCK, consumed_at__gte=begun)
    lacking = consumed.exclude(consumed_by="").filter(Exists(consumers), ~Exists(first))
    for row in lacking.order_by("id"):
        yield Inconsistency("uncharged", str(row), "the consumed stock unit has no usage interval")
    opened = UsageInterval.objects.filter(ended_at__isnull=True).order_by().values("unit_uid")
    for one in opened.annotate(number=Count("pk")).filter(number__gt=1):
        message = f"the unit has {one['number']} open usage intervals"
        yield Inconsistency("doubled", f"unit {one['unit_uid']}", message)


def _excess() -> Iterator[Inconsistency]:
    """Yield resources of which intervals charged more than the nodes have, at any instant.

    Intervals are cut at the time until which their use is proven: the interval of one unit can be
    open already while the end of another one is not written yet.
    """
    if node_records_known() is None:
        return
    since = clock.now() - CHECKED
    until = Coalesce("ended_at", Least("seen_at", Coalesce("finished_at", "seen_at")))
    rows = UsageInterval.objects.filter(Q(ended_at__isnull=True) | Q(ended_at__gt=since))
    charges = rows.annotate(until=until).filter(until__gt=since)
    columns = charges.values_list("resource_name", "gpus", "started_at", "until")
    most = most_charged(
        Charge(name, gpus, max(begin, since), end) for name, gpus, begin, end in columns
    )
    capacity = Counter[str]()
    for offered in Node.objects.values_list("capacity", flat=True):
        capacity.update({name: _whole(offered.get(name)) for name in most})
    for name, number in sorted(most.items()):
        if number > capacity[name]:
            message = f"{capacity[name]} exist, and {number} were charged at the same time"
            yield Inconsistency("overcharged", name, message)


def _whole(quantity: object) -> int:
    return int(Quantity.parsed_or_zero(quantity))
