"""The obstacles of the top-up of a GPU spec."""

from typing import Final

from django.db.models import QuerySet

from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES
from inventory.models import GpuSpec
from units.models import GpuUnit
from units.queue_entries import MAX_FAILED
from units.services.names import UnitOperation
from units.stock_counts import UNCLAIMED, stock_counts

TOP_UP_PREFIX: Final = "top-up"
"""The beginning of the operationIDs of top-ups."""


def top_up_obstacle(spec: GpuSpec) -> str:
    """Return the sentence that explains why a GPU spec is not topped up, or an empty string."""
    if not spec.is_enabled:
        return "The GPU spec is disabled."
    if spec.is_top_up_paused:
        return "The top-up is paused."
    failed = _failed(spec)
    if failed >= MAX_FAILED:
        return (
            f"{failed} stock units have failed. The top-up resumes when fewer than {MAX_FAILED}"
            " have failed, or when the size or the placement of the GPU spec changes."
        )
    open_seeds = Operation.objects.filter(
        kind=UnitOperation.SEED,
        operation_id__startswith=f"{TOP_UP_PREFIX}-",
        payload__specName=spec.name,
        phase__in=OPEN_PHASES,
    )
    return "A top-up is in progress." if open_seeds.exists() else ""


def is_top_up_stopped(spec: GpuSpec) -> bool:
    """Return whether a GPU spec is not topped up until an operator acts."""
    return not spec.is_enabled or spec.is_top_up_paused or _failed(spec) >= MAX_FAILED


def _failed(spec: GpuSpec) -> int:
    return stock_counts(spec).failed


def unclaimed_stock(spec_name: str) -> QuerySet[GpuUnit]:
    """Return the stock units of a GPU spec that exist and that nothing claims or has consumed."""
    return GpuUnit.objects.filter(UNCLAIMED, spec_name=spec_name)
