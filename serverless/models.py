"""Rows of functions and invocations. The invocation's row is also its outbox."""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from typing_extensions import override

from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.models import Tenant
from serverless.phases import FunctionPhase, InvocationMode, InvocationState

OPEN_STATES = (InvocationState.QUEUED, InvocationState.RUNNING)

OPEN = Q(state__in=OPEN_STATES)
"""Accepted and not ended."""

OUTBOX = OPEN & Q(published_at__isnull=True)
"""Not ended and not in the queue: the relay's work."""


class Function(models.Model):
    """What runs when it is invoked: a worker's image and how many workers there may be.

    Its spec lives here and not in the cluster; its workers are GPU units like any other.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, help_text="Whose it is.")
    operation = models.ForeignKey(
        Operation,
        on_delete=models.PROTECT,
        related_name="functions",
        help_text="The operation that made it.",
    )
    request_id = models.CharField(max_length=48, help_text="Its name, as callers give it.")
    spec = models.JSONField(default=dict, help_text="What is wanted, normalised.")
    spec_name = models.CharField(max_length=63, help_text="GPU spec of its workers.")
    generation = models.PositiveBigIntegerField(default=1, help_text="Raised by each change.")
    phase = models.CharField(
        max_length=16,
        choices=FunctionPhase.choices,
        default=FunctionPhase.PENDING,
        help_text="How it is doing.",
    )
    reason = models.CharField(max_length=64, blank=True, help_text="Why the phase is what it is.")
    message = models.TextField(blank=True, help_text="The same for people.")
    phase_since = models.DateTimeField(
        db_default=Now(), help_text="Since when phase and reason are what they are."
    )
    backlog = models.PositiveIntegerField(
        default=0, help_text="Invocations that wait or run, as last seen in the queue."
    )
    workers_ready = models.PositiveIntegerField(default=0, help_text="Workers that serve.")
    workers_starting = models.PositiveIntegerField(default=0, help_text="Workers being made.")
    workers_draining = models.PositiveIntegerField(default=0, help_text="Workers being ended.")
    observed_at = models.DateTimeField(
        null=True, blank=True, help_text="When queue and workers were last looked at."
    )
    last_active_at = models.DateTimeField(
        null=True, blank=True, help_text="When there was something to do last."
    )
    start_failures = models.PositiveIntegerField(
        default=0,
        help_text="Starts of workers that failed in a row; the back-off grows with them.",
    )
    starts_after = models.DateTimeField(
        null=True, blank=True, help_text="Before this no further worker is started."
    )
    created_at = models.DateTimeField(db_default=Now(), help_text="When it was asked for.")
    updated_at = models.DateTimeField(db_default=Now(), help_text="When its spec last changed.")
    deletion_requested_at = models.DateTimeField(
        null=True, blank=True, help_text="When its deletion was asked for."
    )
    deleted_at = models.DateTimeField(
        null=True, blank=True, help_text="When it was gone; the row is history from then on."
    )

    class Meta:
        ordering: ClassVar[list[str]] = ["-id"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["tenant", "request_id"],
                condition=Q(deleted_at__isnull=True),
                name="function_name_is_unique",
            ),
            models.CheckConstraint(
                condition=Q(phase__in=FunctionPhase.values), name="function_phase_is_known"
            ),
            models.CheckConstraint(
                condition=~Q(phase=FunctionPhase.FAILED) | ~Q(reason=""),
                name="function_failed_says_why",
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(
                fields=["-id"], name="function_live", condition=Q(deleted_at__isnull=True)
            ),
        ]

    @override
    def __str__(self) -> str:
        return self.request_id


class Invocation(models.Model):
    """One request to a function, from its acceptance to its result.

    `(tenant, invocation_id)` is its idempotency key. The state moves along its table only.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, help_text="Whose it is.")
    function = models.ForeignKey(
        Function,
        on_delete=models.PROTECT,
        related_name="invocations",
        help_text="What is invoked.",
    )
    invocation_id = models.CharField(max_length=128, help_text="The caller's key, or generated.")
    request_hash = models.CharField(max_length=64, help_text="Fingerprint of the request.")
    mode = models.CharField(
        max_length=5, choices=InvocationMode.choices, help_text="Whether the caller waits."
    )
    state = models.CharField(
        max_length=16,
        choices=InvocationState.choices,
        default=InvocationState.QUEUED,
        help_text="What has become of it.",
    )
    failure_class = models.CharField(max_length=32, blank=True, help_text="Why it failed.")
    error = models.TextField(blank=True, help_text="The same for people.")
    content_type = models.CharField(max_length=127, help_text="Media type of the payload.")
    headers = models.JSONField(default=dict, blank=True, help_text="Headers for the function.")
    payload = models.BinaryField(help_text="What the function gets.")
    timeout_seconds = models.PositiveIntegerField(help_text="How long the function may take.")
    publications = models.PositiveSmallIntegerField(
        default=0, help_text="How often it was put in the queue on purpose; in the message's id."
    )
    published_at = models.DateTimeField(
        null=True, blank=True, help_text="When it was put in the queue; empty: the relay will."
    )
    stream_sequence = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="Its number in the stream."
    )
    relay_after = models.DateTimeField(
        null=True,
        blank=True,
        help_text="Until then it is the work of one relay, or the queue refused it.",
    )
    attempts = models.PositiveSmallIntegerField(
        default=0, help_text="Deliveries that a worker began."
    )
    attempted_at = models.DateTimeField(
        null=True, blank=True, help_text="When a worker began with it last."
    )
    worker = models.CharField(max_length=63, blank=True, help_text="The worker that had it last.")
    accepted_at = models.DateTimeField(db_default=Now(), help_text="When it was accepted.")
    started_at = models.DateTimeField(
        null=True, blank=True, help_text="When a worker began with it first."
    )
    completed_at = models.DateTimeField(null=True, blank=True, help_text="When it ended.")
    stored_at = models.DateTimeField(
        null=True, blank=True, help_text="When what its worker said of the end was written here."
    )
    result_attempt = models.PositiveSmallIntegerField(
        default=0, help_text="The delivery whose end this is; 0: no worker's."
    )
    status_code = models.PositiveSmallIntegerField(
        null=True, blank=True, help_text="Status that the function answered with."
    )
    result_content_type = models.CharField(max_length=127, blank=True, help_text="Of the body.")
    result_headers = models.JSONField(default=dict, blank=True, help_text="Of the answer.")
    result_body = models.BinaryField(null=True, blank=True, help_text="The answer, up to a limit.")
    result_bytes = models.PositiveBigIntegerField(
        default=0, help_text="Size of the whole answer, kept or not."
    )
    is_truncated = models.BooleanField(default=False, help_text="Whether the body was too large.")

    class Meta:
        ordering: ClassVar[list[str]] = ["-id"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["tenant", "invocation_id"], name="invocation_is_unique"
            ),
            models.CheckConstraint(
                condition=Q(state__in=InvocationState.values), name="invocation_state_is_known"
            ),
            models.CheckConstraint(
                condition=OPEN | Q(completed_at__isnull=False),
                name="invocation_ended_says_when",
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["id"], name="invocation_outbox", condition=OUTBOX),
            models.Index(fields=["function", "id"], name="invocation_open", condition=OPEN),
            models.Index(fields=["function", "-id"], name="invocation_of_function"),
            models.Index(fields=["state", "-id"], name="invocation_state"),
            models.Index(fields=["completed_at"], name="invocation_completed"),
        ]

    @override
    def __str__(self) -> str:
        return self.invocation_id
