"""Rows of GPU units in both roles, of their history, and of nodes with a shortage."""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from typing_extensions import override

from gpuplatform.operations.models import Operation
from gpuplatform.reconciliation.models import MirrorRow
from gpuplatform.tenancy.models import Tenant
from units.phases import UnitPhase, UnitRole

CLAIMABLE = Q(
    role=UnitRole.STOCK,
    phase=UnitPhase.READY,
    claimed_by__isnull=True,
    consumed_by="",
    deletion_requested_at__isnull=True,
    deleted_at__isnull=True,
)
"""Stock that a create may claim: the row alone decides, the resource has no mark."""


class GpuUnit(MirrorRow):
    """The mirror of a `GPUUnit` resource, in either role.

    A stock unit is either free, claimed by one open operation, consumed by one unit (final), or
    deleted.
    """

    role = models.CharField(
        max_length=8, choices=UnitRole.choices, help_text="Stock, or a user's active unit."
    )
    tenant = models.ForeignKey(
        Tenant, null=True, blank=True, on_delete=models.PROTECT, help_text="Empty: operators only."
    )
    operation = models.ForeignKey(
        Operation,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="gpu_units",
        help_text="The operation that created it; empty for a resource created with kubectl.",
    )
    ordinal = models.PositiveIntegerField(
        null=True, blank=True, help_text="Ordinal in its seeding, from 1; stock only."
    )
    phase = models.CharField(
        max_length=16,
        choices=UnitPhase.choices,
        default=UnitPhase.PENDING,
        help_text="The phase in the status of the resource.",
    )
    spec = models.JSONField(default=dict, help_text="The spec of the resource.")
    spec_name = models.CharField(max_length=63, blank=True, help_text="Name of the GPU spec.")
    image = models.CharField(max_length=512, blank=True, help_text="Container image reference.")
    gpu = models.PositiveIntegerField(default=0, help_text="GPUs of its pod.")
    is_suspended = models.BooleanField(
        default=False, help_text="Whether the unit is to be stopped."
    )
    ready_replicas = models.PositiveIntegerField(default=0, help_text="Pods that are ready: 0, 1.")
    service_name = models.CharField(max_length=63, blank=True, help_text="Its Service, if any.")
    access_url = models.CharField(
        max_length=300, blank=True, help_text="The URL inside the cluster."
    )
    source_name = models.CharField(
        max_length=253, blank=True, help_text="The stock unit that it consumes; active only."
    )
    source_uid = models.CharField(max_length=36, blank=True, help_text="UID of that stock unit.")
    claimed_by = models.ForeignKey(
        Operation,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="claimed_stock",
        help_text="The open operation that claims it; stock only.",
    )
    consumed_by = models.CharField(
        max_length=36,
        blank=True,
        help_text="UID of the unit that consumed it; final; stock only.",
    )
    consumed_at = models.DateTimeField(null=True, blank=True, help_text="When it was consumed.")
    resource_gone_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="When its resource was first not found while objects that it owned remained.",
    )

    class Meta:
        ordering: ClassVar[list[str]] = ["-id"]
        verbose_name = "GPU unit"
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["namespace", "name"],
                condition=Q(deleted_at__isnull=True),
                name="gpu_unit_name_is_unique",
            ),
            models.UniqueConstraint(
                fields=["uid"], condition=~Q(uid=""), name="gpu_unit_uid_is_unique"
            ),
            models.CheckConstraint(
                condition=Q(phase__in=UnitPhase.values), name="gpu_unit_phase_is_known"
            ),
            models.CheckConstraint(
                condition=~Q(phase=UnitPhase.FAILED) | ~Q(reason=""),
                name="gpu_unit_failed_says_why",
            ),
            models.CheckConstraint(
                condition=Q(claimed_by__isnull=True) | Q(consumed_by=""),
                name="gpu_unit_claimed_or_consumed",
            ),
            models.CheckConstraint(
                condition=Q(role=UnitRole.STOCK) | Q(claimed_by__isnull=True, consumed_by=""),
                name="gpu_unit_only_stock_is_taken",
            ),
            models.CheckConstraint(
                condition=Q(consumed_by="", consumed_at__isnull=True)
                | (~Q(consumed_by="") & Q(consumed_at__isnull=False)),
                name="gpu_unit_consumed_says_when",
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(
                fields=["due_at"], name="gpu_unit_due", condition=Q(due_at__isnull=False)
            ),
            models.Index(
                fields=["spec_name", "id"], name="gpu_unit_claimable", condition=CLAIMABLE
            ),
            models.Index(
                fields=["role", "-id"], name="gpu_unit_live", condition=Q(deleted_at__isnull=True)
            ),
            models.Index(fields=["phase", "-id"], name="gpu_unit_phase"),
            # For counts by phase and the newest failures, whatever there is of the other role.
            models.Index(
                fields=["role", "phase", "-id"],
                name="gpu_unit_live_phase",
                condition=Q(deleted_at__isnull=True),
            ),
            models.Index(fields=["deleted_at"], name="gpu_unit_deleted"),
            models.Index(
                fields=["consumed_by"], name="gpu_unit_consumed", condition=~Q(consumed_by="")
            ),
        ]


class StockUnit(GpuUnit):
    """The stock units, for a separate list in the admin."""

    class Meta:
        proxy = True
        ordering: ClassVar[list[str]] = ["-id"]
        verbose_name = "stock unit"


class ActiveUnit(GpuUnit):
    """The active units, for a separate list in the admin."""

    class Meta:
        proxy = True
        ordering: ClassVar[list[str]] = ["-id"]
        verbose_name = "GPU unit"


class ShortNode(models.Model):
    """A node that offers fewer GPUs than its pods hold, by the last comparison."""

    name = models.CharField(max_length=253, primary_key=True, help_text="Name of the node.")
    gpus_offered = models.PositiveIntegerField(help_text="Allocatable GPUs.")
    gpus_held = models.PositiveIntegerField(help_text="GPUs that its pods hold.")

    class Meta:
        ordering: ClassVar[list[str]] = ["name"]

    @override
    def __str__(self) -> str:
        return self.name


class UnitHistory(models.Model):
    """One change of a unit's phase or reason. Kept for 30 days."""

    unit = models.ForeignKey(GpuUnit, on_delete=models.CASCADE, related_name="history")
    at = models.DateTimeField(db_default=Now(), help_text="When it changed.")
    phase = models.CharField(max_length=16, help_text="The phase from then on.")
    reason = models.CharField(max_length=64, blank=True, help_text="The reason from then on.")
    message = models.TextField(blank=True, help_text="The message from then on.")
    cause = models.CharField(
        max_length=64,
        blank=True,
        db_default="",
        help_text="What kept the pod from running or from being ready.",
    )
    operation = models.ForeignKey(
        Operation,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="The operation that caused it, if one did.",
    )

    class Meta:
        ordering: ClassVar[list[str]] = ["-id"]
        verbose_name_plural = "unit history"
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["unit", "-id"], name="unit_history_of_unit"),
            models.Index(fields=["at"], name="unit_history_at"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.phase} {self.reason}".strip()


class CapacitySample(models.Model):
    """The idle GPU time of one GPU spec between two samples; inserted by beat."""

    at = models.DateTimeField(db_default=Now(), help_text="When the sample was taken.")
    spec_name = models.CharField(max_length=63, help_text="Name of the GPU spec.")
    idle_gpu_seconds = models.PositiveBigIntegerField(
        help_text="GPU-seconds that ready stock held since the sample before."
    )

    class Meta:
        ordering: ClassVar[list[str]] = ["-id"]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["spec_name", "-at"], name="capacity_sample_of_spec"),
            models.Index(fields=["at"], name="capacity_sample_at"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.spec_name} {self.at:%Y-%m-%d %H:%M}"
