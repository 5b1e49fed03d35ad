"""The row of an operation: one accepted request and its outcome."""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from typing_extensions import override

from gpuplatform.operations.phases import ENDED_PHASES, OPEN_PHASES, OperationPhase
from gpuplatform.reconciliation.models import LeasedRow
from gpuplatform.tenancy.actor import MAX_ACTOR_LENGTH
from gpuplatform.tenancy.models import Tenant


class Operation(LeasedRow):
    """One accepted request. It is kept for 30 days after it ended and its object was deleted.

    The order of the ids is the order of acceptance. Written by the services, the driver and the
    interventions of this app only.
    """

    tenant = models.ForeignKey(
        Tenant, on_delete=models.PROTECT, help_text="The tenant of the request."
    )
    operation_id = models.CharField(
        max_length=128, help_text="The caller's idempotency key, unique within the tenant."
    )
    asked_by = models.CharField(
        max_length=MAX_ACTOR_LENGTH,
        blank=True,
        db_default="",
        help_text="The token or admin user that sent the request; empty: created automatically.",
    )
    trace_id = models.CharField(
        max_length=128,
        blank=True,
        db_default="",
        help_text="The traceID of the HTTP request that was accepted; empty without one.",
    )
    kind = models.CharField(
        max_length=64, help_text="Kind of the request, such as `stockpool.create`."
    )
    payload = models.JSONField(default=dict, help_text="The normalised request.")
    request_hash = models.CharField(max_length=64, help_text="Hash of the request.")
    hash_version = models.PositiveSmallIntegerField(help_text="Version of the hash.")
    phase = models.CharField(
        max_length=16,
        choices=OperationPhase.choices,
        default=OperationPhase.PENDING,
        help_text="Phase of the operation.",
    )
    reason = models.CharField(max_length=64, blank=True, help_text="Why it waits, as a code.")
    reason_since = models.DateTimeField(
        null=True, blank=True, help_text="Since when it waits for this reason."
    )
    message = models.TextField(blank=True, help_text="Why it waits, for people.")
    error_code = models.CharField(max_length=64, blank=True, help_text="Why it failed, as a code.")
    error_message = models.TextField(blank=True, help_text="Why it failed, for people.")
    error_retryable = models.BooleanField(
        default=False, help_text="Whether the same request with a new operationID can succeed."
    )
    object_kind = models.CharField(max_length=32, help_text="Kubernetes kind of the object.")
    object_namespace = models.CharField(max_length=63, help_text="Namespace of the object.")
    object_name = models.CharField(max_length=253, help_text="Name of the object.")
    object_row = models.BigIntegerField(null=True, help_text="Id of the object's row.")
    object_uid = models.CharField(
        max_length=36,
        blank=True,
        help_text="UID of the object, recorded when the operation succeeds.",
    )
    progress_done = models.PositiveIntegerField(default=0, help_text="Objects that are done.")
    progress_total = models.PositiveIntegerField(default=1, help_text="Objects of the operation.")
    cancelled_by = models.ForeignKey(
        "self",
        null=True,
        on_delete=models.SET_NULL,
        related_name="cancels",
        help_text="The operation that cancels this one; it takes effect after the current step.",
    )
    retry_of = models.OneToOneField(
        "self",
        null=True,
        on_delete=models.SET_NULL,
        related_name="retried_by",
        help_text="The failed operation that this one retries.",
    )
    starts = models.PositiveSmallIntegerField(
        default=0, help_text="Consecutive starts without an outcome."
    )
    created_at = models.DateTimeField(db_default=Now(), help_text="When it was accepted.")
    updated_at = models.DateTimeField(db_default=Now(), help_text="When it last changed.")
    ended_at = models.DateTimeField(null=True, blank=True, help_text="When it ended.")

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
            models.Index(fields=["ended_at"], name="operation_ended"),
            models.Index(fields=["phase", "-id"], name="operation_phase"),
            models.Index(fields=["kind", "-id"], name="operation_kind"),
            # For a maximum age: an index by id would read every older row.
            models.Index(fields=["created_at"], name="operation_created"),
        ]

    @override
    def __str__(self) -> str:
        return self.operation_id
