"""The model of operations."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from typing_extensions import override

from gpuplatform.audit.core.changes import Target
from gpuplatform.operations.phases import ENDED_PHASES, OPEN_PHASES, OperationPhase
from gpuplatform.reconciliation.models import LeasedRow
from gpuplatform.tenancy.actor import MAX_ACTOR_LENGTH
from gpuplatform.tenancy.models import Tenant


class Operation(LeasedRow):
    """An accepted request and its outcome. The ids are in the order of acceptance.

    Only the services, the driver and the interventions of this app write rows.
    """

    tenant = models.ForeignKey(
        Tenant, on_delete=models.PROTECT, help_text="Tenant that owns the operation."
    )
    operation_id = models.CharField(
        max_length=128, help_text="Idempotency key of the request. Unique within the tenant."
    )
    asked_by = models.CharField(
        max_length=MAX_ACTOR_LENGTH,
        blank=True,
        db_default="",
        help_text="Token or admin user that sent the request. Empty if created automatically.",
    )
    trace_id = models.CharField(
        max_length=128,
        blank=True,
        db_default="",
        help_text="ID of the accepted HTTP request in the log. Empty if created automatically.",
    )
    kind = models.CharField(
        max_length=64, help_text="Kind of the operation, such as `stockpool.create`."
    )
    payload = models.JSONField(default=dict, help_text="Normalized request.")
    request_hash = models.CharField(max_length=64, help_text="Hash of the request.")
    hash_version = models.PositiveSmallIntegerField(help_text="Version of the hash algorithm.")
    phase = models.CharField(
        max_length=16,
        choices=OperationPhase.choices,
        default=OperationPhase.PENDING,
        help_text="Phase of the operation.",
    )
    reason = models.CharField(
        max_length=64, blank=True, help_text="Code of the reason for the wait."
    )
    reason_since = models.DateTimeField(
        null=True, blank=True, help_text="Time at which the wait for this reason started."
    )
    message = models.TextField(blank=True, help_text="Human-readable reason for the wait.")
    error_code = models.CharField(max_length=64, blank=True, help_text="Code of the error.")
    error_message = models.TextField(blank=True, help_text="Human-readable error.")
    error_retryable = models.BooleanField(
        default=False, help_text="Whether the same request with a new operationID can succeed."
    )
    object_kind = models.CharField(max_length=32, help_text="Kubernetes kind of the object.")
    object_namespace = models.CharField(max_length=63, help_text="Namespace of the object.")
    object_name = models.CharField(max_length=253, help_text="Name of the object.")
    object_row = models.BigIntegerField(null=True, help_text="ID of the row of the object.")
    object_uid = models.CharField(
        max_length=36,
        blank=True,
        help_text="UID of the object. Recorded when the operation succeeds.",
    )
    progress_done = models.PositiveIntegerField(
        default=0, help_text="Number of processed objects."
    )
    progress_total = models.PositiveIntegerField(default=1, help_text="Total number of objects.")
    cancelled_by = models.ForeignKey(
        "self",
        null=True,
        on_delete=models.SET_NULL,
        related_name="cancels",
        help_text="Operation that cancels this one after its current step.",
    )
    retry_of = models.OneToOneField(
        "self",
        null=True,
        on_delete=models.SET_NULL,
        related_name="retried_by",
        help_text="Failed operation that this one retries.",
    )
    starts = models.PositiveSmallIntegerField(
        default=0, help_text="Number of consecutive starts without an outcome."
    )
    created_at = models.DateTimeField(db_default=Now(), help_text="Time of acceptance.")
    updated_at = models.DateTimeField(db_default=Now(), help_text="Time of the last change.")
    ended_at = models.DateTimeField(null=True, blank=True, help_text="Time at which it ended.")

    limits: Mapping[str, int] = MappingProxyType({})
    """The limits of the tenant that apply to the acceptance. Only its transaction has them."""
    target: Target = Target()
    """The object before the change, for the audit log. Only the accepting transaction has it."""

    class Meta:
        ordering: ClassVar[list[str]] = ["-id"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["tenant", "operation_id"], name="operation_is_unique"),
            models.CheckConstraint(
                condition=Q(phase__in=OperationPhase.values), name="operation_phase_is_known"
            ),
            models.CheckConstraint(
                condition=~Q(phase=OperationPhase.FAILED) | ~Q(error_code=""),
                name="operation_failed_says_why",
            ),
            models.CheckConstraint(
                condition=Q(phase__in=OPEN_PHASES, due_at__isnull=False, ended_at__isnull=True)
                | Q(phase__in=ENDED_PHASES, due_at__isnull=True, ended_at__isnull=False),
                name="operation_open_is_due",
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(
                fields=["due_at"], name="operation_due", condition=Q(due_at__isnull=False)
            ),
            models.Index(
                fields=["object_kind", "object_namespace", "object_name", "id"],
                name="operation_open_of_object",
                condition=Q(phase__in=OPEN_PHASES),
            ),
            # For the number of open operations of a tenant, and for its next one (`fair_order`).
            models.Index(
                fields=["tenant", "due_at", "id"],
                name="operation_next_of_tenant",
                condition=Q(phase__in=OPEN_PHASES),
            ),
            models.Index(fields=["ended_at"], name="operation_ended"),
            models.Index(fields=["phase", "-id"], name="operation_phase"),
            models.Index(fields=["kind", "-id"], name="operation_kind"),
            # For the filter by maximum age. An index by id would read every older row.
            models.Index(fields=["created_at"], name="operation_created"),
        ]

    @override
    def __str__(self) -> str:
        return self.operation_id
