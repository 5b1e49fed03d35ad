"""Database models of stock pools and of the catalogue of GPU specs."""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from typing_extensions import override

from gpuplatform.operations.models import Operation
from gpuplatform.reconciliation.constraints import mirror_constraints, mirror_indexes
from gpuplatform.reconciliation.models import MirrorRow
from gpuplatform.tenancy.models import Tenant
from inventory.phases import PoolPhase


class StockPool(MirrorRow):
    """The mirror of a `StockPool` resource.

    A stock pool is a Deployment whose pods hold GPUs. These GPUs never become part of a unit.
    """

    tenant = models.ForeignKey(
        Tenant,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        help_text="Tenant that requested the stock pool. Empty if it was created with kubectl.",
    )
    operation = models.ForeignKey(
        Operation,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="stock_pools",
        help_text="Operation that created the stock pool. Empty if it was created with kubectl.",
    )
    phase = models.CharField(
        max_length=16,
        choices=PoolPhase.choices,
        default=PoolPhase.PENDING,
        help_text="Phase that the status of the resource reports.",
    )
    spec = models.JSONField(default=dict, help_text="Spec of the resource.")
    spec_name = models.CharField(max_length=63, blank=True, help_text="Name of the GPU spec.")
    desired_replicas = models.PositiveIntegerField(default=0, help_text="Desired number of pods.")
    available_replicas = models.PositiveIntegerField(
        default=0, help_text="Number of available pods."
    )
    allocated_replicas = models.PositiveIntegerField(
        default=0, help_text="Number of desired pods that are not available."
    )
    service_name = models.CharField(
        max_length=63,
        blank=True,
        help_text="Name of the Service. Empty if the resource has no Service.",
    )

    class Meta:
        ordering: ClassVar[list[str]] = ["-id"]
        verbose_name = "stock pool"
        constraints: ClassVar[list[models.BaseConstraint]] = mirror_constraints(
            "stock_pool", PoolPhase.values
        )
        indexes: ClassVar[list[models.Index]] = [
            *mirror_indexes("stock_pool"),
            models.Index(
                fields=["-id"], name="stock_pool_live", condition=Q(deleted_at__isnull=True)
            ),
        ]


class GpuSpec(models.Model):
    """An entry of the catalogue: the size of the units of a GPU spec, and its warm target.

    Seeding copies the values into the stock units, so that a change of the entry does not affect
    existing stock and units.
    """

    name = models.CharField(
        max_length=63,
        unique=True,
        help_text="Name of the GPU spec: the `specName` of stock pools and units.",
    )
    description = models.CharField(
        max_length=200, blank=True, help_text="Description that users see."
    )
    cpu = models.CharField(
        max_length=32,
        blank=True,
        help_text="CPU of one unit, as a Kubernetes quantity. Empty means no CPU request.",
    )
    memory = models.CharField(
        max_length=32,
        blank=True,
        help_text="Memory of one unit, as a Kubernetes quantity. Empty means no memory request.",
    )
    gpu = models.PositiveIntegerField(default=0, help_text="Number of GPUs of one unit.")
    product = models.CharField(
        max_length=63,
        blank=True,
        help_text="Value of the node label `nvidia.com/gpu.product`. Empty means any product.",
    )
    placement = models.JSONField(
        default=dict,
        blank=True,
        help_text="Node selector and tolerations, in the format of a GPUUnit.",
    )
    warm_target = models.PositiveIntegerField(
        default=0,
        help_text="Number of ready stock units to maintain; 0 disables the automatic top-up.",
    )
    is_top_up_paused = models.BooleanField(
        default=False, help_text="Whether the automatic top-up is paused."
    )
    restocks_on_delete = models.BooleanField(
        default=False, help_text="Whether a new stock unit is created for each deleted unit."
    )
    may_preempt = models.BooleanField(
        default=True,
        help_text="Whether a unit can preempt other pods to get the GPUs of its stock unit.",
    )
    is_enabled = models.BooleanField(
        default=True,
        help_text="Whether stock can be seeded and claimed. Disabling the GPU spec removes its"
        " unclaimed stock; active units keep running.",
    )
    created_at = models.DateTimeField(
        db_default=Now(), help_text="Time at which the GPU spec was created."
    )
    updated_at = models.DateTimeField(
        db_default=Now(), help_text="Time at which the GPU spec last changed."
    )

    class Meta:
        ordering: ClassVar[list[str]] = ["name"]
        verbose_name = "GPU spec"

    @override
    def __str__(self) -> str:
        return self.name
