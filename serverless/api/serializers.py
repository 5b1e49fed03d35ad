"""Response models of the function and invocation routes."""

import base64
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from gpuplatform import clock
from gpuplatform.api.examples import EXAMPLE_TIME, reply_example
from gpuplatform.api.schema import NullIfEmpty, Reply, SchemaOf, conforming_block, words
from gpuplatform.images import ECHO_IMAGE
from gpuplatform.workloads.causes import StartupCause
from gpuplatform.workloads.function_worker import (
    BackoffSeconds,
    Concurrency,
    Framework,
    MaxDeliver,
    TimeoutSeconds,
)
from gpuplatform.workloads.template import PodTemplate
from serverless.api.links import result_link
from serverless.core.spec import (
    ExpiresInSeconds,
    FunctionSpec,
    IdleTimeoutSeconds,
    MaxWorkers,
    MinWorkers,
)
from serverless.models import Function, Invocation
from serverless.phases import (
    FailureClass,
    FunctionPhase,
    FunctionReason,
    InvocationMode,
    InvocationState,
)
from serverless.selectors import current_backlog


class WorkersReply(Reply):
    """Number of workers of a function at the last observation, by state."""

    ready: int = Field(description="Number of ready workers.", examples=[1])
    starting: int = Field(description="Number of starting workers.", examples=[0])
    draining: int = Field(
        description="Number of workers that finish their invocations and then stop.", examples=[0]
    )


Cause = Annotated[
    StartupCause | None,
    NullIfEmpty,
    Field(
        description="Code of the problem that prevents workers from starting; null if no problem"
        " was observed.",
        examples=[None],
    ),
]


class FunctionReply(Reply):
    """Spec and status of a function."""

    request_id: str = Field(description="Name of the function.", examples=["echo"])
    spec_name: str = Field(description="GPU spec of the workers.", examples=["h100-1g"])
    image: str = Field(description="Image of the workers.", examples=[ECHO_IMAGE])
    template: Annotated[dict[str, Any], SchemaOf(PodTemplate)] | None = Field(
        description="Command, arguments, environment variables and ports of the container; null if"
        " the spec has no template."
    )
    framework: Framework
    min_workers: MinWorkers
    max_workers: MaxWorkers
    concurrency: Concurrency
    idle_timeout_seconds: IdleTimeoutSeconds
    timeout_seconds: TimeoutSeconds
    expires_in_seconds: ExpiresInSeconds
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
    def of(cls, row: Function) -> Self:
        """Return the response for a row of `with_oldest`."""
        spec = row.parsed_spec
        oldest: datetime | None = getattr(row, "oldest_open_at", None)
        return cls(
            **{name: getattr(spec, name) for name in _SPEC_FIELDS},
            **{name: getattr(row, name) for name in _COLUMNS},
            template=conforming_block(PodTemplate, row.spec.get("template")),
            backlog=current_backlog(row),
            oldest_pending_seconds=(clock.now() - oldest).total_seconds() if oldest else None,
            workers=WorkersReply(
                ready=row.workers_ready,
                starting=row.workers_starting,
                draining=row.workers_draining,
            ),
            operation_id=row.operation.operation_id,
        )


_SPEC_FIELDS = tuple(FunctionSpec.model_fields.keys() - {"template"})
_COLUMNS = (
    *("request_id", "generation", "phase", "reason", "message", "cause"),
    *("created_at", "updated_at", "observed_at"),
)


class ResultReply(Reply):
    """The response of the function to an invocation."""

    status_code: int | None = Field(
        description="HTTP status of the response; null if the function did not respond.",
        examples=[200],
    )
    content_type: str = Field(description="Media type of the body.", examples=["application/json"])
    headers: dict[str, str] = Field(description="Headers of the response.", examples=[{}])
    body: str | None = Field(
        description="Body of the response; null in lists. Use `href` to get the body.",
        examples=['{"text": "hello"}'],
    )
    body_encoding: Literal["text", "base64"] | None = Field(
        description="Encoding of `body`; null in lists.", examples=["text"]
    )
    body_bytes: int = Field(
        description="Size of the complete response body in bytes.", examples=[17]
    )
    truncated: bool = Field(
        description="Whether only the first part of the response body is stored."
    )
    href: str = Field(
        description="Link to the body, which can be used without a token for ten minutes.",
        examples=[
            "/api/v1/serverless/invocations/order-4711/result?expires=1769860800&sig=1-0123abcd"
        ],
    )


class BlockedReply(Reply):
    """The problem that prevents a function from serving a queued invocation."""

    reason: str = Field(
        description="Code that explains the phase of the function.",
        examples=[FunctionReason.NO_CAPACITY.value],
        json_schema_extra=words(FunctionReason),
    )
    message: str = Field(
        description="Human-readable explanation of the phase.",
        examples=["No stock of the GPU spec 'h100-1g' is ready."],
    )
    cause: Cause
    since: datetime = Field(
        description="Time at which the phase or the reason of the function last changed.",
        validation_alias="phase_since",
    )


class InvocationReply(Reply):
    """One request to a function, and its outcome."""

    invocation_id: str = Field(
        description="Idempotency key of the invocation.", examples=["order-4711"]
    )
    request_id: str = Field(description="Name of the function.", examples=["echo"])
    mode: InvocationMode = Field(
        description="Whether the caller waits for the result.", examples=["async"]
    )
    state: InvocationState = Field(description="State of the invocation.", examples=["Succeeded"])
    blocked: BlockedReply | None = Field(
        description="Problem that prevents the function from serving this queued invocation; null"
        " if the function can serve the invocation."
    )
    failure_class: Annotated[str | None, NullIfEmpty] = Field(
        description="Code that explains the failure; null if the invocation succeeded or is open.",
        json_schema_extra={"enum": [*(one.value for one in FailureClass), None]},
    )
    attempts: int = Field(description="Number of deliveries that a worker started.", examples=[1])
    worker: Annotated[str | None, NullIfEmpty] = Field(
        description="Worker of the latest delivery; null if there was no delivery.",
        examples=["fn-1-0123abcd"],
    )
    accepted_at: datetime = Field(description="Time at which the invocation was accepted.")
    expires_at: datetime | None = Field(
        description="Time at which the invocation expires unless a worker has started it; null if"
        " it does not expire.",
        examples=[None],
    )
    started_at: datetime | None = Field(
        description="Time at which a worker first started the invocation; null if no worker did.",
        examples=[EXAMPLE_TIME],
    )
    completed_at: datetime | None = Field(
        description="Time at which the invocation ended; null if it is open.",
        examples=[EXAMPLE_TIME],
    )
    result: ResultReply | None = Field(
        description="Response of the function; null if the function has not responded.",
        examples=[reply_example(ResultReply)],
    )
    error: Annotated[str | None, NullIfEmpty] = Field(
        description="Human-readable explanation of the failure; null if the invocation has not"
        " failed."
    )

    @classmethod
    def of(cls, row: Invocation, *, has_body: bool = True) -> Self:
        """Return the response for a row.

        Args:
            row: The invocation.
            has_body: Whether the row was read with the body of the result.
        """
        columns = cls.model_fields.keys() - {"request_id", "blocked", "result"}
        return cls(
            **{name: getattr(row, name) for name in columns},
            request_id=row.function.request_id,
            blocked=BlockedReply.model_validate(row.function) if row.is_blocked else None,
            result=_result(row, has_body=has_body),
        )


def has_result(row: Invocation) -> bool:
    """Return whether the function has responded to the invocation."""
    return row.completed_at is not None and row.status_code is not None


def _result(row: Invocation, *, has_body: bool) -> ResultReply | None:
    if not has_result(row):
        return None
    body, encoding = _encoded(bytes(row.result_body or b"")) if has_body else (None, None)
    return ResultReply(
        status_code=row.status_code,
        content_type=row.result_content_type,
        headers=row.result_headers,
        body=body,
        body_encoding=encoding,
        body_bytes=row.result_bytes,
        truncated=row.is_truncated,
        href=result_link(row),
    )


def _encoded(body: bytes) -> tuple[str, Literal["text", "base64"]]:
    """Return the body and its encoding: `text` if the body is UTF-8, otherwise `base64`."""
    try:
        return body.decode(), "text"
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), "base64"
