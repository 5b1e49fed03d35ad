"""The numbers of unclaimed stock units of GPU specs, by state.

Stock that failed or found no node with an earlier version of its GPU spec is not counted:
otherwise, it would delay the first attempt with the corrected GPU spec.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Case, Count, F, OuterRef, Q, QuerySet, When
from django.db.models.functions import JSONObject

from gpuplatform.errors import InvalidSpec
from gpuplatform.workloads.causes import UNPLACED
from inventory.models import GpuSpec
from inventory.selectors import spec_pod_fields
from units.core.spec import GPUUnitSpec
from units.models import WITHHELD, GpuUnit
from units.phases import UnitPhase, UnitRole

UNCLAIMED: Final = Q(
    role=UnitRole.STOCK, deleted_at__isnull=True, consumed_by="", claimed_by__isnull=True
)
"""The condition of stock units that exist and that nothing claims or has consumed."""

_FAILED: Final = Q(phase=UnitPhase.FAILED)
_UNSCHEDULED: Final = Q(cause__in=UNPLACED)
_COUNTS: Final = {
    "ready": Count("id", filter=Q(phase=UnitPhase.READY)),
    "starting": Count("id", filter=~Q(phase=UnitPhase.READY) & ~_FAILED),
    "failed": Count("id", filter=_FAILED),
    "withheld": Count("id", filter=WITHHELD),
    "placeless": Count("id", filter=Q(node="") & ~_FAILED),
    "unscheduled": Count("id", filter=_UNSCHEDULED),
}


@dataclass(frozen=True, slots=True)
class StockCounts:
    """The numbers of unclaimed stock units of a GPU spec that are not being deleted."""

    ready: int = 0
    starting: int = 0
    """Neither ready nor failed."""
    failed: int = 0
    withheld: int = 0
    """Among the starting ones: they run, but their nodes would not accept the pod of a unit."""
    placeless: int = 0
    """Not failed, and their node is not known."""
    unscheduled: int = 0
    """Their pods do not fit any node, whether they have failed or not."""

    @property
    def held(self) -> int:
        """The number of stock units that have not failed."""
        return self.ready + self.starting

    def __add__(self, other: "StockCounts") -> "StockCounts":
        """Return the sums."""
        added = asdict(other)
        return StockCounts(**{name: one + added[name] for name, one in asdict(self).items()})


def stock_spec(spec: GpuSpec) -> dict[str, Any]:
    """Return the spec that new stock of a GPU spec gets, in canonical form.

    Raises:
        InvalidSpec: If an earlier release accepted the GPU spec, and it is invalid now.
    """
    size = {"cpu": spec.cpu, "memory": spec.memory, "gpu": spec.gpu}
    given = {key: value for key, value in size.items() if value} | spec_pod_fields(spec)
    return GPUUnitSpec.parse({"specName": spec.name, **given}).normalised()


def stock_counts(spec: GpuSpec) -> StockCounts:
    """Return the numbers of the unclaimed stock of a GPU spec, with one query."""
    return _sum_of(spec, _rows_of(spec.name))


def specs_with_stock(spec_names: Collection[str]) -> dict[str, tuple[GpuSpec, StockCounts]]:
    """Return the GPU specs with these names and the numbers of their stock, with one query."""
    columns = JSONObject(stuck_spec="stuck_spec", **{name: name for name in _COUNTS})
    stock = ArraySubquery(_rows_of(OuterRef("name")).values(columns=columns))
    specs = GpuSpec.objects.filter(name__in=spec_names).annotate(stock=stock)
    return {spec.name: (spec, _sum_of(spec, spec.stock)) for spec in specs}


def _rows_of(spec_name: str | OuterRef) -> QuerySet[GpuUnit, Any]:
    # Only the specs of stock that is stuck are compared: there are few of them.
    stuck = Case(When(_FAILED | _UNSCHEDULED, then=F("spec")))
    stock = GpuUnit.objects.filter(
        UNCLAIMED, spec_name=spec_name, deletion_requested_at__isnull=True
    )
    return stock.order_by().values(stuck_spec=stuck).annotate(**_COUNTS)


def _sum_of(spec: GpuSpec, rows: Iterable[Mapping[str, Any]]) -> StockCounts:
    counted = StockCounts()
    for row in rows:
        if row["stuck_spec"] is None or _is_current(row["stuck_spec"], spec):
            counted += StockCounts(**{name: row[name] for name in _COUNTS})
    return counted


def _is_current(spec: Mapping[str, Any], entry: GpuSpec) -> bool:
    """Return whether new stock of a GPU spec would get this spec.

    The API server adds defaults to the specs of stock, so that canonical forms are compared.
    """
    try:
        return GPUUnitSpec.parse(spec).normalised() == stock_spec(entry)
    except InvalidSpec:  # It was accepted by an earlier release.
        return False
