"""Reading the inventory."""

from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from gpuplatform.errors import NotFound
from inventory.models import StockPool


def pools_live() -> QuerySet[StockPool]:
    """Return pools that are there or about to be, newest first."""
    return (
        StockPool.objects.filter(deleted_at__isnull=True)
        .select_related("operation", "tenant")
        .order_by("-id")
    )


def pool_get(namespace: str, name: str) -> StockPool:
    """Return one pool.

    Raises:
        NotFound: there is none of that name.
    """
    pool = pools_live().filter(namespace=namespace, name=name).first()
    if pool is None:
        msg = f"There is no stock pool '{name}' in the namespace '{namespace}'."
        raise NotFound(msg)
    return pool


def pool_count() -> int:
    """Return how many pools there are."""
    return StockPool.objects.filter(deleted_at__isnull=True).count()


def pools_due(limit: int) -> list[int]:
    """Return the numbers of pools that a worker should take now, longest due first."""
    free = Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lt=Now())
    due = StockPool.objects.filter(free, due_at__lte=Now(), deleted_at__isnull=True)
    return list(due.exclude(uid="").order_by("due_at").values_list("id", flat=True)[:limit])
