"""Queries of stock pools and of the catalogue."""

from typing import NamedTuple

from django.db.models import Case, QuerySet, Sum, When

from gpuplatform.errors import NotFound
from gpuplatform.reconciliation.leases import due_ids
from inventory.models import GpuSpec, StockPool
from inventory.phases import PoolPhase

MOST_OFFERED = 1_000
"""Maximum number of GPU spec names that a form offers."""


class PodsHeld(NamedTuple):
    """A number of pods of stock pools that have the same GPU spec and number of GPUs."""

    spec_name: str
    gpu: int
    pods: int


def pools_live() -> QuerySet[StockPool]:
    """Return the stock pools that exist or are being created, newest first."""
    live = StockPool.objects.filter(deleted_at__isnull=True)
    return live.select_related("operation", "tenant").order_by("-id")


def pool_get(namespace: str, name: str, *, for_update: bool = False) -> StockPool:
    """Return a stock pool that exists or is being created.

    `for_update` locks the row, so that operations on a stock pool are accepted one by one.

    Raises:
        NotFound: If no stock pool has this name.
    """
    rows = pools_live().filter(namespace=namespace, name=name)
    pool = (rows.select_for_update(of=("self",)) if for_update else rows).first()
    if pool is None:
        msg = f"Stock pool '{name}' not found in namespace '{namespace}'."
        raise NotFound(msg)
    return pool


def pool_count() -> int:
    """Return the number of stock pools that exist or are being created."""
    return StockPool.objects.filter(deleted_at__isnull=True).count()


def pools_due(limit: int) -> list[int]:
    """Return the ids of at most `limit` due stock pools that no worker has claimed."""
    return due_ids(StockPool.objects.filter(deleted_at__isnull=True).exclude(uid=""), limit)


def pods_held() -> list[PodsHeld]:
    """Return the number of pods that hold GPUs for stock pools, by GPU spec and number of GPUs.

    Of a failed stock pool, only the available pods count; of any other, all desired pods.
    """
    held = Case(
        When(phase=PoolPhase.FAILED, then="available_replicas"), default="desired_replicas"
    )
    rows = (
        StockPool.objects.filter(deleted_at__isnull=True)
        .order_by()
        .values("spec_name", "spec__gpu")
        .annotate(pods=Sum(held))
    )
    return [PodsHeld(row["spec_name"], _whole(row["spec__gpu"]), row["pods"] or 0) for row in rows]


def _whole(value: object) -> int:
    """Return a value of an unvalidated spec if it is a positive integer, otherwise 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def specs_all() -> QuerySet[GpuSpec]:
    """Return all GPU specs of the catalogue, sorted by name."""
    return GpuSpec.objects.order_by("name")


def spec_names() -> list[str]:
    """Return the names of the enabled GPU specs, at most `MOST_OFFERED`, sorted."""
    enabled = specs_all().filter(is_enabled=True)
    return list(enabled.values_list("name", flat=True)[:MOST_OFFERED])


def spec_get(name: str, *, for_update: bool = False) -> GpuSpec:
    """Return a GPU spec of the catalogue.

    `for_update` locks the row, so that changes of a GPU spec are accepted one by one.

    Raises:
        NotFound: If the catalogue has no GPU spec with this name.
    """
    rows = GpuSpec.objects.filter(name=name)
    found = (rows.select_for_update() if for_update else rows).first()
    if found is None:
        msg = f"GPU spec '{name}' is not in the catalogue."
        raise NotFound(msg)
    return found
