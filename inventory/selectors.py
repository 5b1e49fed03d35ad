"""Queries of stock pools and the catalogue."""

from typing import NamedTuple

from django.db.models import Case, Q, QuerySet, Sum, When
from django.db.models.functions import Now

from gpuplatform.errors import NotFound
from inventory.models import GpuSpec, StockPool
from inventory.phases import PoolPhase

MOST_OFFERED = 1_000
"""Maximum number of GPU spec names that a form offers."""


class PodsHeld(NamedTuple):
    """The number of pods of pools, of one GPU spec and size."""

    spec_name: str
    gpu: int
    pods: int


def pools_live() -> QuerySet[StockPool]:
    """Return pools that exist or are being created, newest first."""
    return (
        StockPool.objects.filter(deleted_at__isnull=True)
        .select_related("operation", "tenant")
        .order_by("-id")
    )


def pool_get(namespace: str, name: str) -> StockPool:
    """Return one pool.

    Raises:
        NotFound: no pool has that name.
    """
    pool = pools_live().filter(namespace=namespace, name=name).first()
    if pool is None:
        msg = f"Stock pool '{name}' not found in namespace '{namespace}'."
        raise NotFound(msg)
    return pool


def pool_count() -> int:
    """Return the number of pools."""
    return StockPool.objects.filter(deleted_at__isnull=True).count()


def pools_due(limit: int) -> list[int]:
    """Return the ids of due pools that no worker has claimed, longest due first."""
    free = Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lt=Now())
    due = StockPool.objects.filter(free, due_at__lte=Now(), deleted_at__isnull=True)
    return list(due.exclude(uid="").order_by("due_at").values_list("id", flat=True)[:limit])


def pods_held() -> list[PodsHeld]:
    """Return the number of pods that hold GPUs for pools, by spec and GPUs of a pod.

    All desired pods of a pool count; of a failed pool only the available ones.
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
    """Return a positive integer of a spec written with kubectl; 0 for any other value."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def specs_all() -> QuerySet[GpuSpec]:
    """Return the catalogue, by name."""
    return GpuSpec.objects.order_by("name")


def spec_names() -> list[str]:
    """Return the names of the enabled GPU specs, as many as a form offers."""
    enabled = specs_all().filter(is_enabled=True)
    return list(enabled.values_list("name", flat=True)[:MOST_OFFERED])


def spec_get(name: str) -> GpuSpec:
    """Return one entry of the catalogue.

    Raises:
        NotFound: no entry has that name.
    """
    found = GpuSpec.objects.filter(name=name).first()
    if found is None:
        raise spec_missing(name)
    return found


def spec_missing(name: str) -> NotFound:
    """Return the error for a spec that is not in the catalogue."""
    return NotFound(f"GPU spec '{name}' is not in the catalogue.")
