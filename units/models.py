"""Database models of GPU units, their nodes, their history, and capacity samples."""

from datetime import datetime
from typing import ClassVar

from django.db import models
from django.db.models import Q, Value
from django.db.models.functions import Now
from typing_extensions import override

from gpuplatform.formats.names import EXTENDED_RESOURCE_MAX
from gpuplatform.operations.models import Operation
from gpuplatform.reconciliation.constraints import mirror_constraints, mirror_indexes
from gpuplatform.reconciliation.models import MirrorRow
from gpuplatform.tenancy.models import Tenant
from gpuplatform.workloads.resources import GPU_RESOURCE
from units.image_models import NodeImages as NodeImages  # noqa: PLC0414 - a table of units
from units.image_models import WarmImage as WarmImage  # noqa: PLC0414 - as above
from units.phases import UnitPhase, UnitReason, UnitRole
from units.queue_models import CapacityRequest as CapacityRequest  # noqa: PLC0414 - as above
from units.queue_models import PreemptionNotice as PreemptionNotice  # noqa: PLC0414 - as above

CLAIMABLE = Q(
    role=UnitRole.STOCK,
    phase=UnitPhase.READY,
    claimed_by__isnull=True,
    consumed_by="",
    deletion_requested_at__isnull=True,
    deleted_at__isnull=True,
)
"""The condition of claimable stock units. Only the row decides; the resource is not marked."""

WITHHELD = Q(phase=UnitPhase.PROGRESSING, reason=UnitReason.STOCK_WITHHELD)
"""The condition of stock units that run, but whose node would not accept the pod of a unit."""

RELEASED = Q(phase=UnitPhase.STOPPED) | Q(is_ended=True)
"""The condition of units that hold no GPUs."""


PREEMPTIBLE = Q(is_preemptible=True, deleted_at__isnull=True)
"""The condition of preemptible units that exist."""


class GpuUnit(MirrorRow):
    """The mirror of a `GPUUnit` resource in either role.

    A stock unit is either free, claimed by one open operation, consumed by one unit, or deleted. A
    consumed stock unit is never released.
    """

    role = models.CharField(
        max_length=8,
        choices=UnitRole.choices,
        help_text="Whether the unit is a stock unit or an active unit of a user.",
    )
    tenant = models.ForeignKey(
        Tenant,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        help_text="Tenant of the unit. Empty for stock and for units created with kubectl.",
    )
    operation = models.ForeignKey(
        Operation,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="gpu_units",
        help_text="Operation that created the unit. Empty if it was created with kubectl.",
    )
    ordinal = models.PositiveIntegerField(
        null=True, blank=True, help_text="For stock: ordinal within the seeding, starting at 1."
    )
    phase = models.CharField(
        max_length=16,
        choices=UnitPhase.choices,
        default=UnitPhase.PENDING,
        help_text="Phase that the status of the resource reports.",
    )
    spec = models.JSONField(default=dict, help_text="Spec of the resource.")
    spec_name = models.CharField(max_length=63, blank=True, help_text="Name of the GPU spec.")
    image = models.CharField(max_length=512, blank=True, help_text="Container image.")
    gpu = models.PositiveIntegerField(default=0, help_text="Number of GPUs of the pod.")
    gpus_seen = models.PositiveIntegerField(
        default=0,
        db_default=0,
        help_text="For active units: GPUs of pods that were not observed absent yet. They count"
        " toward the limits of the tenant, even if the row is closed.",
    )
    resource_name = models.CharField(
        max_length=EXTENDED_RESOURCE_MAX,
        default=GPU_RESOURCE,
        db_default=GPU_RESOURCE,
        help_text="Extended resource that `gpu` counts.",
    )
    is_preemptible = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Whether the unit can be stopped for a request that is not preemptible.",
    )
    priority = models.PositiveSmallIntegerField(
        default=0, db_default=0, help_text="Priority of the unit in the capacity queue."
    )
    is_suspended = models.BooleanField(
        default=False, help_text="Whether the unit is stopped or is being stopped."
    )
    ready_replicas = models.PositiveIntegerField(
        default=0, help_text="Number of ready pods: 0 or 1."
    )
    is_ended = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Whether the program has ended, so that the unit holds no GPUs.",
    )
    exit_code = models.IntegerField(
        null=True,
        blank=True,
        help_text="Exit code of the program. Empty if it has not ended or the code is unknown.",
    )
    finished_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="Time at which the program ended, as the node reported it.",
    )
    service_name = models.CharField(
        max_length=63,
        blank=True,
        help_text="Name of the Service. Empty if the resource has no Service.",
    )
    access_url = models.CharField(
        max_length=300, blank=True, help_text="URL of the unit inside the cluster."
    )
    source_name = models.CharField(
        max_length=253,
        blank=True,
        help_text="For active units: name of the stock unit that the unit consumes.",
    )
    source_uid = models.CharField(
        max_length=36,
        blank=True,
        help_text="For active units: UID of the stock unit that the unit consumes.",
    )
    claimed_by = models.ForeignKey(
        Operation,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="claimed_stock",
        help_text="For stock: open operation that claims the unit.",
    )
    consumed_by = models.CharField(
        max_length=36,
        blank=True,
        help_text="For stock: UID of the unit that consumed it. The value never changes.",
    )
    consumed_at = models.DateTimeField(
        null=True, blank=True, help_text="For stock: time at which the unit was consumed."
    )
    start_steps = models.JSONField(
        default=list,
        db_default=Value([], models.JSONField()),
        help_text="Steps of the last start until the unit was ready.",
    )
    avoided_node = models.CharField(
        max_length=253,
        blank=True,
        db_default="",
        help_text="Node on which the unit could not start, so that it was started again with a"
        " stock unit of another node. Empty if it was not started again.",
    )
    node = models.CharField(
        max_length=253,
        blank=True,
        db_default="",
        help_text="Node of the pod at the last comparison. Empty if it is not known.",
    )
    is_warm_start = models.BooleanField(
        default=False,
        db_default=False,
        help_text="For stock: whether its node was known to have the image of the unit that last"
        " claimed it.",
    )
    resource_gone_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="Time at which the resource was first not found while objects of it remained.",
    )
    group_name = models.CharField(
        max_length=63,
        blank=True,
        db_default="",
        help_text="Name of the group of the unit. Empty if it is not in a group.",
    )
    group_rank = models.PositiveSmallIntegerField(
        null=True, blank=True, help_text="Rank of the unit in its group, starting at 0."
    )
    starts_warm: bool = False
    """For active units: `is_warm_start` of the source. Only rows of `units_live` have it."""
    is_spec_catalogued: bool = True
    """Whether the catalogue has the GPU spec. Rows of `units_live` and `stock_live` have it."""
    spec_row: int | None = None
    """The id of the GPU spec. Only rows of the admin have this attribute and the next three."""
    node_row: int | None = None
    """The id of the node."""
    group_row: int | None = None
    """The id of the first unit of the group."""
    preempted_at: datetime | None = None
    """The time after which a notice of a preemption stops the unit."""
    waits_since: datetime | None = None
    """For active units: time since which a request for capacity is open. Only rows of `units_live`
    have it."""
    waits_preempted: bool = False
    """Whether the unit waits because it was stopped for another request. As `waits_since`."""
    waits_for_gpus: int = 0
    """Number of GPUs of the GPU spec, which the unit waits for. As `waits_since`."""

    class Meta:
        ordering: ClassVar[list[str]] = ["-id"]
        verbose_name = "GPU unit"
        constraints: ClassVar[list[models.BaseConstraint]] = [
            *mirror_constraints("gpu_unit", UnitPhase.values),
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
            *mirror_indexes("gpu_unit"),
            models.Index(
                fields=["spec_name", "id"], name="gpu_unit_claimable", condition=CLAIMABLE
            ),
            models.Index(
                fields=["role", "-id"], name="gpu_unit_live", condition=Q(deleted_at__isnull=True)
            ),
            # For the counts by phase and the newest failures of one role.
            models.Index(
                fields=["role", "phase", "-id"],
                name="gpu_unit_live_phase",
                condition=Q(deleted_at__isnull=True),
            ),
            models.Index(
                fields=["node"], name="gpu_unit_of_node", condition=Q(deleted_at__isnull=True)
            ),
            models.Index(fields=["spec_name"], name="gpu_unit_preemptible", condition=PREEMPTIBLE),
            # For the limits of tenants.
            models.Index(fields=["tenant"], name="gpu_unit_counted", condition=Q(gpus_seen__gt=0)),
            models.Index(
                fields=["tenant"],
                name="gpu_unit_of_tenant",
                condition=Q(role=UnitRole.ACTIVE, deleted_at__isnull=True),
            ),
            models.Index(
                fields=["consumed_by"], name="gpu_unit_consumed", condition=~Q(consumed_by="")
            ),
            models.Index(
                fields=["namespace", "group_name", "id"],
                name="gpu_unit_of_group",
                condition=Q(deleted_at__isnull=True) & ~Q(group_name=""),
            ),
        ]

    @property
    def responding_url(self) -> str:
        """The access URL, or an empty string unless the unit is ready and is not being stopped."""
        responds = self.phase == UnitPhase.READY and not self.is_suspended
        return self.access_url if responds else ""


class StockUnit(GpuUnit):
    """A proxy for the separate list of stock units in the admin."""

    class Meta:
        proxy = True
        ordering: ClassVar[list[str]] = ["-id"]
        verbose_name = "stock unit"


class ActiveUnit(GpuUnit):
    """A proxy for the separate list of active units in the admin."""

    class Meta:
        proxy = True
        ordering: ClassVar[list[str]] = ["-id"]
        verbose_name = "GPU unit"


class UnitGroup(GpuUnit):
    """A proxy for the list of groups in the admin: the first unit of each group."""

    class Meta:
        proxy = True
        ordering: ClassVar[list[str]] = ["-id"]
        verbose_name = "unit group"


class UnitHistory(models.Model):
    """A change of the phase or the reason of a unit. Rows are deleted after 30 days."""

    unit = models.ForeignKey(GpuUnit, on_delete=models.CASCADE, related_name="history")
    at = models.DateTimeField(db_default=Now(), help_text="Time at which the unit changed.")
    phase = models.CharField(max_length=16, help_text="Phase after the change.")
    reason = models.CharField(max_length=64, blank=True, help_text="Reason after the change.")
    message = models.TextField(blank=True, help_text="Message after the change.")
    cause = models.CharField(
        max_length=64,
        blank=True,
        db_default="",
        help_text="Code of the problem that kept the pod from starting or from becoming ready.",
    )
    operation = models.ForeignKey(
        Operation,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="Operation that caused the change. Empty if no operation caused the change.",
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
    """The idle GPU time of a GPU spec between two samples."""

    at = models.DateTimeField(db_default=Now(), help_text="Time at which the sample was taken.")
    spec_name = models.CharField(max_length=63, help_text="Name of the GPU spec.")
    idle_gpu_seconds = models.PositiveBigIntegerField(
        help_text="GPU-seconds that ready stock held since the previous sample."
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
