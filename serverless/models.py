"""Rows of functions and invocations. Open invocations that are not published form the outbox."""

from datetime import datetime
from typing import ClassVar

from django.db import models
from django.db.models import Q, Value
from django.db.models.functions import Now
from typing_extensions import override

from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.models import Tenant
from serverless.core.ids import function_id
from serverless.core.spec import FunctionSpec
from serverless.phases import BLOCKING_REASONS, FunctionPhase, InvocationMode, InvocationState
from serverless.webhook_phases import WebhookState

OPEN_STATES = (InvocationState.QUEUED, InvocationState.RUNNING)

OPEN = Q(state__in=OPEN_STATES)
"""Condition for open invocations, which are accepted and have not ended."""

OUTBOX = OPEN & Q(published_at__isnull=True)
"""Condition for open invocations that are not in the queue. The relay publishes them."""

EXPIRING = Q(state=InvocationState.QUEUED, expires_at__isnull=False)
"""Condition for invocations that expire unless a worker starts them."""

EXPIRED_MESSAGE = Q(state=InvocationState.EXPIRED, attempts=0, stream_sequence__isnull=False)
"""Condition for invocations that expired in the queue and whose message is not deleted yet."""

WEBHOOK_OUTBOX = ~OPEN & Q(webhook_state=WebhookState.PENDING)
"""Condition for ended invocations whose webhook has to be sent, however they ended."""


def _optional_time(help_text: str) -> "models.DateTimeField[datetime | None, datetime | None]":
    """Return the field of a time that is null until an event occurs."""
    return models.DateTimeField(null=True, blank=True, help_text=help_text)


class Function(models.Model):
    """A function: an image that responds to requests on workers, which are GPU units.

    The spec is stored in this row and not in the cluster.
    """

    id = models.BigIntegerField(
        primary_key=True,
        default=function_id,
        editable=False,
        help_text="Number in the names of workers, subjects and Secrets.",
    )
    tenant = models.ForeignKey(
        Tenant, on_delete=models.PROTECT, help_text="Tenant that owns the function."
    )
    operation = models.ForeignKey(
        Operation,
        on_delete=models.PROTECT,
        related_name="functions",
        help_text="Operation that created the function.",
    )
    request_id = models.CharField(max_length=48, help_text="Name of the function.")
    spec = models.JSONField(default=dict, help_text="Spec without default values.")
    spec_name = models.CharField(max_length=63, help_text="GPU spec of the workers.")
    generation = models.PositiveBigIntegerField(
        default=1, help_text="Number of the spec, incremented by each update."
    )
    phase = models.CharField(
        max_length=16,
        choices=FunctionPhase.choices,
        default=FunctionPhase.PENDING,
        help_text="Summary of the function's state.",
    )
    reason = models.CharField(max_length=64, blank=True, help_text="Code that explains the phase.")
    message = models.TextField(blank=True, help_text="Human-readable explanation of the phase.")
    cause = models.CharField(
        max_length=64,
        blank=True,
        default="",
        db_default="",
        help_text="Code of the problem that prevents workers from starting.",
    )
    phase_since = models.DateTimeField(
        db_default=Now(), help_text="Time at which the phase or the reason last changed."
    )
    backlog = models.PositiveIntegerField(default=0, help_text="Number of open invocations.")
    workers_ready = models.PositiveIntegerField(default=0, help_text="Number of ready workers.")
    workers_starting = models.PositiveIntegerField(
        default=0, help_text="Number of starting workers."
    )
    workers_draining = models.PositiveIntegerField(
        default=0, help_text="Number of draining workers."
    )
    observed_at = _optional_time("Time at which the queue and workers were last observed.")
    last_active_at = _optional_time("Time at which an invocation was last open.")
    start_failures = models.PositiveIntegerField(
        default=0, help_text="Number of consecutive failed starts of workers."
    )
    starts_after = _optional_time("Time at which the backoff after failed starts ends.")
    created_at = models.DateTimeField(
        db_default=Now(), help_text="Time at which the creation was accepted."
    )
    updated_at = models.DateTimeField(
        db_default=Now(), help_text="Time at which the spec last changed."
    )
    deletion_requested_at = _optional_time("Time at which the deletion was accepted.")
    deleted_at = _optional_time("Time at which the function was deleted.")

    spec_row: int | None = None
    """The id of the GPU spec. Only rows of the admin have it."""

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
            )
        ]

    @override
    def __str__(self) -> str:
        return self.request_id

    @property
    def parsed_spec(self) -> FunctionSpec:
        """The spec.

        Raises:
            InvalidSpec: If the spec violates a rule of this release.
        """
        return FunctionSpec.parse(self.spec)

    @property
    def limits(self) -> FunctionSpec:
        """The spec without its template, which only the start of a worker needs.

        A template that an earlier release accepted can violate a rule of this release.

        Raises:
            InvalidSpec: If another field of the spec violates a rule of this release.
        """
        return FunctionSpec.parse({k: v for k, v in self.spec.items() if k != "template"})

    @property
    def is_blocked(self) -> bool:
        """Whether the function cannot serve invocations for the reason in `reason`."""
        return self.phase == FunctionPhase.FAILED or self.reason in BLOCKING_REASONS


class Invocation(models.Model):
    """One request to a function, from its acceptance to its result.

    The idempotency key is `(tenant, invocation_id)`. `INVOCATION_TRANSITIONS` restricts changes of
    the state.
    """

    tenant = models.ForeignKey(
        Tenant, on_delete=models.PROTECT, help_text="Tenant that owns the invocation."
    )
    function = models.ForeignKey(
        Function,
        on_delete=models.PROTECT,
        related_name="invocations",
        help_text="Function that is invoked.",
    )
    invocation_id = models.CharField(
        max_length=128, help_text="Idempotency key, unique within the tenant."
    )
    request_hash = models.CharField(max_length=64, help_text="Hash of the request.")
    mode = models.CharField(
        max_length=5,
        choices=InvocationMode.choices,
        help_text="Whether the caller waits for the result.",
    )
    state = models.CharField(
        max_length=16,
        choices=InvocationState.choices,
        default=InvocationState.QUEUED,
        help_text="State of the invocation.",
    )
    failure_class = models.CharField(
        max_length=32, blank=True, help_text="Code that explains a failure."
    )
    error = models.TextField(blank=True, help_text="Human-readable explanation of a failure.")
    content_type = models.CharField(max_length=127, help_text="Media type of the payload.")
    headers = models.JSONField(
        default=dict, blank=True, help_text="Headers passed to the function."
    )
    payload = models.BinaryField(help_text="Body passed to the function.")
    timeout_seconds = models.PositiveIntegerField(
        help_text="Maximum time in seconds for one attempt."
    )
    expires_in_seconds = models.PositiveIntegerField(
        default=0,
        db_default=0,
        help_text="Maximum time in seconds until a worker starts the invocation, or 0.",
    )
    repeated_calls = models.PositiveIntegerField(
        default=0, db_default=0, help_text="Number of repeated requests with the same id."
    )
    expires_at = _optional_time("Time at which the invocation expires unless it has started.")
    publications = models.PositiveSmallIntegerField(
        default=0, help_text="Number of publications to the queue."
    )
    published_at = _optional_time("Time at which the invocation was published to the queue.")
    stream_sequence = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="Sequence of the message in the stream."
    )
    relay_after = _optional_time("Time before which no relay claims the invocation.")
    attempts = models.PositiveSmallIntegerField(
        default=0, help_text="Number of deliveries that a worker started."
    )
    attempted_at = _optional_time("Time at which a worker last started the invocation.")
    worker = models.CharField(
        max_length=63, blank=True, help_text="Worker of the latest delivery."
    )
    accepted_at = models.DateTimeField(
        db_default=Now(), help_text="Time at which the invocation was accepted."
    )
    started_at = _optional_time("Time at which a worker first started the invocation.")
    completed_at = _optional_time("Time at which the invocation ended.")
    stored_at = _optional_time("Time at which the result was stored.")
    result_attempt = models.PositiveSmallIntegerField(
        default=0, help_text="Number of the attempt that produced the result, or 0."
    )
    status_code = models.PositiveSmallIntegerField(
        null=True, blank=True, help_text="HTTP status of the response."
    )
    result_content_type = models.CharField(
        max_length=127, blank=True, help_text="Media type of the response."
    )
    result_headers = models.JSONField(
        default=dict, blank=True, help_text="Headers of the response."
    )
    result_body = models.BinaryField(
        null=True, blank=True, help_text="Stored part of the response body."
    )
    result_bytes = models.PositiveBigIntegerField(
        default=0, help_text="Size of the complete response body in bytes."
    )
    is_truncated = models.BooleanField(
        default=False, help_text="Whether only the first part of the response body is stored."
    )

    on_done_url = models.CharField(
        max_length=2048,
        blank=True,
        default="",
        db_default="",
        help_text="URL to which the webhook is sent, or an empty string.",
    )
    webhook_state = models.CharField(
        max_length=16,
        choices=WebhookState.choices,
        blank=True,
        default="",
        db_default="",
        help_text="State of the webhook, or an empty string without a webhook.",
    )
    webhook_id = models.UUIDField(
        null=True, blank=True, help_text="ID of the current delivery of the webhook."
    )
    webhook_after = _optional_time("Time before which no process sends the webhook.")
    webhook_attempts = models.JSONField(
        default=list,
        db_default=Value([], models.JSONField()),
        blank=True,
        help_text="Latest attempts to send the webhook, oldest first.",
    )

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
                condition=OPEN | Q(completed_at__isnull=False), name="invocation_ended_says_when"
            ),
            models.CheckConstraint(
                condition=Q(on_done_url="", webhook_state="")
                | (~Q(on_done_url="") & Q(webhook_state__in=WebhookState.values)),
                name="invocation_webhook_state_is_known",
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["id"], name="invocation_outbox", condition=OUTBOX),
            models.Index(fields=["function", "id"], name="invocation_open", condition=OPEN),
            models.Index(fields=["tenant"], name="invocation_open_of_tenant", condition=OPEN),
            models.Index(fields=["function", "-id"], name="invocation_of_function"),
            models.Index(fields=["state", "-id"], name="invocation_state"),
            models.Index(fields=["completed_at"], name="invocation_completed"),
            models.Index(fields=["expires_at"], name="invocation_expiring", condition=EXPIRING),
            models.Index(fields=["id"], name="invocation_expired", condition=EXPIRED_MESSAGE),
            models.Index(
                fields=["webhook_after"], name="invocation_webhook", condition=WEBHOOK_OUTBOX
            ),
            models.Index(
                fields=["id"],
                name="invocation_webhook_failed",
                condition=Q(webhook_state=WebhookState.FAILED),
            ),
        ]

    @override
    def __str__(self) -> str:
        return self.invocation_id

    @property
    def is_blocked(self) -> bool:
        """Whether the invocation is queued because its function cannot serve invocations."""
        return self.state == InvocationState.QUEUED and self.function.is_blocked


class WebhookSecret(models.Model):
    """A secret with which the webhooks of a function are signed.

    The row contains no secret: the key is derived from the salt and the key of the installation
    (`services/webhook_secrets.py`).
    """

    function = models.ForeignKey(
        Function,
        on_delete=models.CASCADE,
        related_name="webhook_secrets",
        help_text="Function whose webhooks are signed.",
    )
    salt = models.CharField(max_length=64, help_text="Salt from which the key is derived.")
    created_at = models.DateTimeField(
        db_default=Now(), help_text="Time at which the secret was created."
    )
    expires_at = _optional_time("Time after which webhooks are not signed with the secret.")

    class Meta:
        ordering: ClassVar[list[str]] = ["-id"]

    @override
    def __str__(self) -> str:
        return f"webhook secret {self.pk} of {self.function}"
