"""Rows of stock pools and of the catalogue of GPU specs."""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from typing_extensions import override

from gpuplatform.operations.models import Operation
from gpuplatform.reconciliation.models import MirrorRow
from gpuplatform.tenancy.models import Tenant
from inventory.phases import PoolPhase


class StockPool(MirrorRow):
    """The mirror of a `StockPool` resource: an operator's declared pool, held by a Deployment.

    The pool holds its GPUs; they never become units.
    """

    tenant = models.ForeignKey(
        Tenant, null=True, blank=True, on_delete=models.PROTECT, help_text="Empty: operators only."
    )
    operation = models.ForeignKey(
        Operation,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="stock_pools",
        help_text="The operation that created it; empty for a resource created with kubectl.",
    )
    phase = models.CharField(
        max_length=16,
        choices=PoolPhase.choices,
        default=PoolPhase.PENDING,
        help_text="The phase in the status of the resource.",
    )
    spec = models.JSONField(default=dict, help_text="The spec of the resource.")
    spec_name = models.CharField(max_length=63, blank=True, help_text="Name of the GPU spec.")
    desired_replicas = models.PositiveIntegerField(default=0, help_text="Desired pods.")
    available_replicas = models.PositiveIntegerField(default=0, help_text="Available pods.")
    allocated_replicas = models.PositiveIntegerField(
        default=0, help_text="Desired pods that are not available."
    )
    service_name = models.CharField(max_length=63, blank=True, help_text="Its Service, if any.")

    class Meta:
        ordering: ClassVar[list[str]] = ["-id"]
        verbose_name = "stock pool"
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["namespace", "name"],
                condition=Q(deleted_at__isnull=True),
                name="stock_pool_name_is_unique",
            ),
            models.UniqueConstraint(
                fields=["uid"], condition=~Q(uid=""), name="stock_pool_uid_is_unique"
            ),
            models.CheckConstraint(
                condition=Q(phase__in=PoolPhase.values), name="stock_pool_phase_is_known"
            ),
            models.CheckConstraint(
                condition=~Q(phase=PoolPhase.FAILED) | ~Q(reason=""),
                name="stock_pool_failed_says_why",
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(
                fields=["due_at"], name="stock_pool_due", condition=Q(due_at__isnull=False)
            ),
            models.Index(
                fields=["-id"], name="stock_pool_live", condition=Q(deleted_at__isnull=True)
            ),
            models.Index(fields=["phase", "-id"], name="stock_pool_phase"),
            models.Index(fields=["deleted_at"], name="stock_pool_deleted"),
        ]


class GpuSpec(models.Model):
    """An entry of the catalogue: the size of a GPU spec, and the warm target of its stock.

    Its values are copied into stock when stock is seeded, so that a change here never touches
    what runs.
    """

    name = models.CharField(
        max_length=63, unique=True, help_text="The `specName` of pools, stock and units."
    )
    description = models.CharField(max_length=200, blank=True, help_text="Shown to users.")
    cpu = models.CharField(
        max_length=32, blank=True, help_text="CPU of one unit: a Kubernetes quantity; empty: none."
    )
    memory = models.CharField(
        max_length=32, blank=True, help_text="Memory of one unit: a quantity; empty: none."
    )
    gpu = models.PositiveIntegerField(default=0, help_text="GPUs of one unit.")
    product = models.CharField(
        max_length=63, blank=True, help_text="The node label `nvidia.com/gpu.product`; empty: any."
    )
    placement = models.JSONField(
        default=dict, blank=True, help_text="nodeSelector and tolerations, as in a GPUUnit."
    )
    warm_target = models.PositiveIntegerField(
        default=0, help_text="Number of ready stock units to maintain; 0: no automatic seeding."
    )
    is_top_up_paused = models.BooleanField(default=False, help_text="Pauses the automatic top-up.")
    restocks_on_delete = models.BooleanField(
        default=False, help_text="Whether a deleted unit is replaced by a new stock unit."
    )
    may_preempt = models.BooleanField(
        default=True, help_text="Whether a unit may evict others for the GPU that its stock held."
    )
    is_enabled = models.BooleanField(
        default=True,
        help_text="Off: nothing is claimed or seeded, its stock is removed, its units stay.",
    )
    created_at = models.DateTimeField(db_default=Now(), help_text="When it was created.")
    updated_at = models.DateTimeField(db_default=Now(), help_text="When it last changed.")

    class Meta:
        ordering: ClassVar[list[str]] = ["name"]
        verbose_name = "GPU spec"

    @override
    def __str__(self) -> str:
        return self.name
