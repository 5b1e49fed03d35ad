"""Database models of stock pools and of the catalogue of GPU specs."""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from typing_extensions import override

from gpuplatform.formats.names import EXTENDED_RESOURCE_MAX
from gpuplatform.operations.models import Operation
from gpuplatform.reconciliation.constraints import mirror_constraints, mirror_indexes
from gpuplatform.reconciliation.models import MirrorRow
from gpuplatform.tenancy.models import Tenant
from gpuplatform.workloads.resources import GPU_RESOURCE
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
    is_spec_catalogued: bool = True
    """Whether the catalogue has the GPU spec. Only rows of `pools_live` have it."""
    spec_row: int | None = None
    """The id of the GPU spec. Only rows of the admin have it."""

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
    resource_name = models.CharField(
        max_length=EXTENDED_RESOURCE_MAX,
        default=GPU_RESOURCE,
        db_default=GPU_RESOURCE,
        help_text="Extended resource that `gpu` counts.",
    )
    resources = models.JSONField(
        default=dict,
        db_default={},
        blank=True,
        help_text="Further extended resources of one unit, with their quantities.",
    )
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
    warm_images = models.JSONField(
        default=list,
        db_default=[],
        blank=True,
        help_text="Images that the platform keeps on each node with units of the GPU spec.",
    )
    image_pull_secrets = models.JSONField(
        default=list,
        db_default=[],
        blank=True,
        help_text="Secrets with which nodes pull the warm images, in the format of a template.",
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
    hold_pause_until = models.DateTimeField(
        null=True,
        blank=True,
        editable=False,
        help_text="Time before which no free stock is held for the head of the capacity queue.",
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


class Node(models.Model):
    """The mirror of a node, with the pods that hold its extended resources.

    One row contains both, so that the numbers of a node are consistent at any time. The controller
    writes a row only if a value changes. The row of a deleted node exists while pods are bound to
    it.
    """

    name = models.CharField(max_length=253, unique=True, help_text="Name of the node.")
    product = models.CharField(
        max_length=63,
        blank=True,
        help_text="GPU product: the node label `nvidia.com/gpu.product`.",
    )
    labels = models.JSONField(default=dict, help_text="Labels of the node.")
    capacity = models.JSONField(
        default=dict,
        help_text="Quantities of CPU, memory and extended resources, including failed devices.",
    )
    allocatable = models.JSONField(
        default=dict,
        help_text="Quantities of CPU, memory and extended resources that pods can request.",
    )
    is_present = models.BooleanField(default=True, help_text="Whether the node exists.")
    is_ready = models.BooleanField(default=True, help_text="Whether the node is ready.")
    is_schedulable = models.BooleanField(
        default=True, help_text="Whether the node is not cordoned."
    )
    taints = models.JSONField(default=list, help_text="Taints: key, value and effect.")
    pressures = models.JSONField(
        default=list, help_text="Conditions, such as DiskPressure, for which it accepts no pods."
    )
    holders = models.JSONField(
        default=list, help_text="Pods that hold extended resources, sorted by namespace and name."
    )
    is_short = models.BooleanField(
        default=False, help_text="Whether the pods hold more than the node offers."
    )
    resource_version = models.BigIntegerField(
        default=0, help_text="Newest resource version of the cluster at the last change."
    )
    changed_at = models.DateTimeField(
        db_default=Now(), help_text="Time at which a value last changed."
    )

    class Meta:
        ordering: ClassVar[list[str]] = ["name"]

    @override
    def __str__(self) -> str:
        return self.name


class NodeDrain(models.Model):
    """A drain of a node in progress. The row is deleted when the drain ends.

    A drain lasts until it is cancelled or replaced, or until the node is uncordoned or deleted. It
    is stored by the name of the node, because the row of a node exists only as long as the node.
    """

    node = models.CharField(max_length=253, unique=True, help_text="Name of the node.")
    operation = models.ForeignKey(
        Operation,
        on_delete=models.PROTECT,
        related_name="node_drains",
        help_text="Operation that requested the drain and cordons the node.",
    )
    started_at = models.DateTimeField(
        db_default=Now(), help_text="Time at which the drain was accepted."
    )
    deadline = models.DateTimeField(
        null=True,
        blank=True,
        help_text="Time at which the units on the node are stopped. Empty if they keep running.",
    )
    notified = models.JSONField(
        default=list, help_text="UIDs of the units with an Event about the notice."
    )

    class Meta:
        ordering: ClassVar[list[str]] = ["node"]

    @override
    def __str__(self) -> str:
        return self.node
