"""Response models of the function routes."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field

from gpuplatform import clock
from gpuplatform.api.schema import Reply, SchemaOf, conforming_block, optional, words
from gpuplatform.formats.masking import masked
from gpuplatform.images import ECHO_IMAGE
from gpuplatform.operations.waits import deletion_messages
from gpuplatform.workloads.function_worker import (
    BackoffSeconds,
    Concurrency,
    Framework,
    MaxDeliver,
    TimeoutSeconds,
)
from gpuplatform.workloads.template import PodTemplate
from serverless.core.spec import (
    ExpiresInSeconds,
    FunctionSpec,
    IdleTimeoutSeconds,
    MaxWorkers,
    MinWorkers,
)
from serverless.core.webhooks import OnDone, origin_of
from serverless.documents import Cause
from serverless.models import Function
from serverless.phases import FunctionPhase, FunctionReason
from serverless.selectors import current_backlog
from serverless.services.names import ServerlessOperation


class WorkersReply(Reply):
    """Number of workers of a function at the last observation, by state."""

    ready: int = Field(description="Number of ready workers.", examples=[1])
    starting: int = Field(description="Number of starting workers.", examples=[0])
    draining: int = Field(
        description="Number of workers that finish their invocations and then stop.", examples=[0]
    )


class FunctionReply(Reply):
    """Spec and status of a function."""

    model_config = ConfigDict(json_schema_extra=optional("template"))

    request_id: str = Field(description="Name of the function.", examples=["echo"])
    spec_name: str = Field(description="GPU spec of the workers.", examples=["h100-1g"])
    image: str = Field(description="Image of the workers.", examples=[ECHO_IMAGE])
    template: Annotated[dict[str, Any], SchemaOf(PodTemplate)] | None = Field(
        description="Command, arguments, environment variables and ports of the container; null if"
        " the spec has no template. Lists omit it. Values are hidden without the permission"
        " `write`."
    )
    framework: Framework
    min_workers: MinWorkers
    max_workers: MaxWorkers
    concurrency: Concurrency
    idle_timeout_seconds: IdleTimeoutSeconds
    timeout_seconds: TimeoutSeconds
    expires_in_seconds: ExpiresInSeconds
    on_done: OnDone | None = Field(
        description="Webhook of each invocation that does not specify its own; null if none."
    )
    max_deliver: MaxDeliver
    backoff_seconds: BackoffSeconds
    generation: int = Field(
        description="Generation of the spec, without the limits for the number of workers.",
        examples=[1],
    )
    phase: FunctionPhase = Field(
        description="Summary of the state of the function.", examples=["Ready"]
    )
    reason: str = Field(
        description="Code that explains the phase; empty until the function is observed.",
        examples=[FunctionReason.IDLE.value],
        json_schema_extra=words(FunctionReason, empty=True),
    )
    message: str = Field(
        description="Human-readable explanation of the phase.",
        examples=["No invocation is open."],
    )
    cause: Cause
    backlog: int = Field(
        description="Number of open invocations, which are queued or running.", examples=[0]
    )
    oldest_pending_seconds: float | None = Field(
        description="Age of the oldest open invocation in seconds; null if no invocation is open.",
        examples=[None],
    )
    workers: WorkersReply
    created_at: datetime = Field(description="Time at which the creation was accepted.")
    updated_at: datetime = Field(description="Time at which the spec last changed.")
    observed_at: datetime | None = Field(
        description="Time at which the queue and the workers were last observed; null if they were"
        " never observed."
    )
    operation_id: str = Field(
        description="operationID of the operation that created the function.",
        examples=["create-echo"],
    )

    @classmethod
    def of(cls, row: Function, message: str = "") -> Self:
        """Return the response for a row of `with_oldest`.

        `message` replaces the message of the function, unless it is empty.
        """
        spec = row.limits
        oldest: datetime | None = getattr(row, "oldest_open_at", None)
        return cls(
            **{name: getattr(spec, name) for name in _SPEC_FIELDS},
            **{name: getattr(row, name) for name in _COLUMNS},
            message=message or row.message,
            template=conforming_block(PodTemplate, row.spec.get("template")),
            on_done=spec.on_done if spec.on_done.url else None,
            backlog=current_backlog(row),
            oldest_pending_seconds=(clock.now() - oldest).total_seconds() if oldest else None,
            workers=WorkersReply(
                ready=row.workers_ready,
                starting=row.workers_starting,
                draining=row.workers_draining,
            ),
            operation_id=row.operation.operation_id,
        )


_SPEC_FIELDS = tuple(FunctionSpec.model_fields.keys() - {"template", "on_done"})
_COLUMNS = (
    *("request_id", "generation", "phase", "reason", "cause"),
    *("created_at", "updated_at", "observed_at"),
)


def function_replies(rows: Sequence[Function], *, has_values: bool) -> list[FunctionReply]:
    """Return the responses for rows of `with_oldest`.

    The message of a function that is being deleted explains what its deletion waits for.

    Args:
        rows: The functions.
        has_values: Whether the caller may read the values of environment variables and the paths
            of webhooks, which can contain a secret.
    """
    ending = {row.pk: row.request_id for row in rows if row.deletion_requested_at}
    messages = deletion_messages(ServerlessOperation.DELETE, ending)
    replies = [FunctionReply.of(row, messages.get(row.pk, "")) for row in rows]
    return replies if has_values else [without_values(one) for one in replies]


def without_values(reply: FunctionReply) -> FunctionReply:
    """Return a response with hidden values of variables and paths of webhooks."""
    hook = reply.on_done
    if hook is not None and hook.url:
        hook = hook.model_copy(update={"url": origin_of(hook.url)})
    return reply.model_copy(update={"template": masked(reply.template), "on_done": hook})


class WebhookSecretReply(Reply):
    """A new webhook secret, which is not returned again."""

    secret: str = Field(
        description="Secret with which webhooks are signed. Store it: it is not returned again.",
        examples=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
    )
    created_at: datetime = Field(description="Time at which the secret was created.")
    previous_expires_at: datetime | None = Field(
        description="Time at which the earlier secrets expire; null if there are none.",
        examples=[None],
    )
