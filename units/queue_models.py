"""The database models of requests for capacity, and of the notices of preemptions."""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from typing_extensions import override

from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.models import Tenant
from units.phases import RequestPhase


class CapacityRequest(models.Model):
    """The request of an open operation for stock of a GPU spec. The ids are in the order of age.

    A request is open until stock is granted to its operation. If that stock is deleted before the
    hand-over, the same request is open again, with its place in the queue.
    """

    operation = models.OneToOneField(
        Operation,
        on_delete=models.CASCADE,
        related_name="capacity_request",
        help_text="Operation that waits for stock.",
    )
    tenant = models.ForeignKey(
        Tenant,
        on_delete=models.PROTECT,
        related_name="capacity_requests",
        help_text="Tenant of the operation.",
    )
    unit = models.ForeignKey(
        "units.GpuUnit",
        on_delete=models.CASCADE,
        related_name="capacity_requests",
        help_text="Active unit for which the stock is requested.",
    )
    spec_name = models.CharField(max_length=63, help_text="Name of the GPU spec.")
    count = models.PositiveIntegerField(
        default=1, db_default=1, help_text="Number of stock units: all of them or none."
    )
    priority = models.PositiveSmallIntegerField(
        default=0, db_default=0, help_text="Priority from 0 to 100. Higher values are first."
    )
    is_preemptible = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Whether the unit can be stopped for another request. Such requests are last.",
    )
    resource_name = models.CharField(
        max_length=253,
        blank=True,
        db_default="",
        help_text="Extended resource that the stock must hold. Empty if any is allowed.",
    )
    phase = models.CharField(
        max_length=8,
        choices=RequestPhase.choices,
        default=RequestPhase.OPEN,
        db_default=RequestPhase.OPEN,
        help_text="Whether the request waits, has stock, or has ended.",
    )
    requested_at = models.DateTimeField(db_default=Now(), help_text="Time of the request.")
    expires_at = models.DateTimeField(help_text="Time at which an open request ends.")
    granted_at = models.DateTimeField(
        null=True, blank=True, help_text="Time at which stock was granted to a waiting request."
    )
    ahead = models.PositiveIntegerField(
        default=0, db_default=0, help_text="Number of requests before this one when it was opened."
    )
    hold_begun_at = models.DateTimeField(
        null=True, blank=True, help_text="Start of the current hold of free stock for the request."
    )
    hold_times = models.PositiveSmallIntegerField(
        default=0, db_default=0, help_text="Number of earlier holds, which determines the next."
    )

    evicted_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="Time at which preemptible units were stopped for the request: at most once.",
    )
    is_after_preemption = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Whether the unit waits because it was stopped for another request.",
    )

    class Meta:
        ordering: ClassVar[list[str]] = ["id"]
        verbose_name = "capacity request"
        verbose_name_plural = "capacity queue"
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.CheckConstraint(
                condition=Q(phase__in=RequestPhase.values), name="capacity_request_phase_is_known"
            ),
            models.CheckConstraint(
                condition=Q(count__gte=1, priority__lte=100), name="capacity_request_is_valid"
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(
                fields=["spec_name", "id"],
                name="capacity_request_open",
                condition=Q(phase=RequestPhase.OPEN),
            ),
            models.Index(
                fields=["spec_name", "tenant", "is_preemptible", "priority", "requested_at", "id"],
                name="capacity_request_lanes",
                condition=Q(phase=RequestPhase.OPEN),
            ),
            models.Index(
                fields=["spec_name", "resource_name"],
                name="capacity_request_resource",
                condition=Q(phase=RequestPhase.OPEN),
            ),
            models.Index(
                fields=["spec_name", "-granted_at"],
                name="capacity_request_granted",
                condition=Q(granted_at__isnull=False),
            ),
        ]

    @override
    def __str__(self) -> str:
        return self.operation.operation_id


class PreemptionNotice(models.Model):
    """The notice that a preemptible unit will be stopped for a waiting request.

    It is valid while the request is open. Only `units.services.preemption` writes it, except for
    `announced_at`, which `units.preemption_events` writes.
    """

    unit = models.OneToOneField(
        "units.GpuUnit",
        on_delete=models.CASCADE,
        related_name="preemption_notice",
        help_text="Preemptible unit that will be stopped.",
    )
    request = models.ForeignKey(
        CapacityRequest,
        on_delete=models.CASCADE,
        related_name="notices",
        help_text="Request that needs the GPUs of the unit.",
    )
    given_at = models.DateTimeField(db_default=Now(), help_text="Time of the notice.")
    stops_at = models.DateTimeField(help_text="Time after which the unit is stopped.")
    announced_at = models.DateTimeField(
        null=True, blank=True, help_text="Time at which the Event about the notice was written."
    )

    class Meta:
        ordering: ClassVar[list[str]] = ["id"]

    @override
    def __str__(self) -> str:
        return f"{self.unit} for {self.request}"
