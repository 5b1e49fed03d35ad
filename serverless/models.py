"""Rows of functions and invocations; open invocations that are not published are the outbox."""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from typing_extensions import override

from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.models import Tenant
from serverless.core.spec import FunctionSpec
from serverless.phases import BLOCKING_REASONS, FunctionPhase, InvocationMode, InvocationState

OPEN_STATES = (InvocationState.QUEUED, InvocationState.RUNNING)

OPEN = Q(state__in=OPEN_STATES)
"""Open: accepted and not ended."""

OUTBOX = OPEN & Q(published_at__isnull=True)
"""Open and not in the queue: the relay publishes them."""


class Function(models.Model):
    """A function: an image that answers requests on workers, which are GPU units.

    Its spec is stored here and not in the cluster.
    """

    tenant = models.ForeignKey(
        Tenant, on_delete=models.PROTECT, help_text="The tenant that owns it."
    )
    operation = models.ForeignKey(
        Operation,
        on_delete=models.PROTECT,
        related_name="functions",
        help_text="The operation that created it.",
    )
    request_id = models.CharField(max_length=48, help_text="The name that the caller chose.")
    spec = models.JSONField(default=dict, help_text="The declared spec, normalised.")
    spec_name = models.CharField(max_length=63, help_text="GPU spec of its workers.")
    generation = models.PositiveBigIntegerField(default=1, help_text="Incremented by each update.")
    phase = models.CharField(
        max_length=16,
        choices=FunctionPhase.choices,
        default=FunctionPhase.PENDING,
        help_text="Summary of its state.",
    )
    reason = models.CharField(max_length=64, blank=True, help_text="Code that explains the phase.")
    message = models.TextField(blank=True, help_text="Explanation for people.")
    cause = models.CharField(
        max_length=64,
        blank=True,
        default="",
        db_default="",
        help_text="What keeps its workers from starting.",
    )
    phase_since = models.DateTimeField(
        db_default=Now(), help_text="When phase or reason last changed."
    )
    backlog = models.PositiveIntegerField(default=0, help_text="Number of open invocations.")
    workers_ready = models.PositiveIntegerField(default=0, help_text="Ready workers.")
    workers_starting = models.PositiveIntegerField(default=0, help_text="Starting workers.")
    workers_draining = models.PositiveIntegerField(default=0, help_text="Draining workers.")
    observed_at = models.DateTimeField(
        null=True, blank=True, help_text="When it was last observed."
    )
    last_active_at = models.DateTimeField(
        null=True, blank=True, help_text="When it last had an open invocation."
    )
    start_failures = models.PositiveIntegerField(
        default=0, help_text="Consecutive failed starts of workers."
    )
    starts_after = models.DateTimeField(
        null=True, blank=True, help_text="End of the backoff after failed starts."
    )
    created_at = models.DateTimeField(
        db_default=Now(), help_text="When its creation was accepted."
    )
    updated_at = models.DateTimeField(db_default=Now(), help_text="When its spec last changed.")
    deletion_requested_at = models.DateTimeField(
        null=True, blank=True, help_text="When its deletion was accepted."
    )
    deleted_at = models.DateTimeField(null=True, blank=True, help_text="When it was deleted.")

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
        """The declared spec.

        Raises:
            InvalidSpec: it breaks a rule of this release.
        """
        return FunctionSpec.parse(self.spec)

    @property
    def is_blocked(self) -> bool:
        """Whether it cannot serve invocations, for its reason."""
        return self.phase == FunctionPhase.FAILED or self.reason in BLOCKING_REASONS


class Invocation(models.Model):
    """One request to a function, from its acceptance to its result.

    `(tenant, invocation_id)` is its idempotency key. `INVOCATION_TRANSITIONS` guards its state.
    """

    tenant = models.ForeignKey(
        Tenant, on_delete=models.PROTECT, help_text="The tenant that owns it."
    )
    function = models.ForeignKey(
        Function, on_delete=models.PROTECT, related_name="invocations", help_text="The function."
    )
    invocation_id = models.CharField(max_length=128, help_text="The idempotency key.")
    request_hash = models.CharField(max_length=64, help_text="Hash of the request.")
    mode = models.CharField(
        max_length=5, choices=InvocationMode.choices, help_text="Whether the caller waits."
    )
    state = models.CharField(
        max_length=16,
        choices=InvocationState.choices,
        default=InvocationState.QUEUED,
        help_text="The state of the invocation.",
    )
    failure_class = models.CharField(
        max_length=32, blank=True, help_text="Code that explains a failure."
    )
    error = models.TextField(blank=True, help_text="Explanation for people.")
    content_type = models.CharField(max_length=127, help_text="Media type of the payload.")
    headers = models.JSONField(
        default=dict, blank=True, help_text="Headers passed to the function."
    )
    payload = models.BinaryField(help_text="The body passed to the function.")
    timeout_seconds = models.PositiveIntegerField(help_text="Timeout of the function in seconds.")
    publications = models.PositiveSmallIntegerField(
        default=0, help_text="Number of publications to the queue."
    )
    published_at = models.DateTimeField(
        null=True, blank=True, help_text="When it was published to the queue."
    )
    stream_sequence = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="Sequence in the stream."
    )
    relay_after = models.DateTimeField(
        null=True, blank=True, help_text="End of a relay's claim, or of a delay."
    )
    attempts = models.PositiveSmallIntegerField(
        default=0, help_text="Number of started deliveries."
    )
    attempted_at = models.DateTimeField(
        null=True, blank=True, help_text="When it was last started."
    )
    worker = models.CharField(
        max_length=63, blank=True, help_text="Worker of the latest delivery."
    )
    accepted_at = models.DateTimeField(db_default=Now(), help_text="When it was accepted.")
    started_at = models.DateTimeField(
        null=True, blank=True, help_text="When it was first started."
    )
    completed_at = models.DateTimeField(null=True, blank=True, help_text="When it ended.")
    stored_at = models.DateTimeField(
        null=True, blank=True, help_text="When the result was stored."
    )
    result_attempt = models.PositiveSmallIntegerField(
        default=0, help_text="The attempt that the result is of; 0: none."
    )
    status_code = models.PositiveSmallIntegerField(
        null=True, blank=True, help_text="HTTP status of the answer."
    )
    result_content_type = models.CharField(
        max_length=127, blank=True, help_text="Media type of the answer."
    )
    result_headers = models.JSONField(default=dict, blank=True, help_text="Headers of the answer.")
    result_body = models.BinaryField(
        null=True, blank=True, help_text="Body of the answer, perhaps cut off."
    )
    result_bytes = models.PositiveBigIntegerField(
        default=0, help_text="Size of the whole answer in bytes."
    )
    is_truncated = models.BooleanField(
        default=False, help_text="Whether the stored body is cut off."
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

    @property
    def is_blocked(self) -> bool:
        """Whether it is queued because its function cannot serve it."""
        return self.state == InvocationState.QUEUED and self.function.is_blocked
