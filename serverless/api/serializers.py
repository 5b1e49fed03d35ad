"""The replies of the routes of functions and invocations."""

import base64
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from gpuplatform import clock
from gpuplatform.api.examples import EXAMPLE_TIME, reply_example
from gpuplatform.api.schema import Reply, SchemaOf, conforming_block, words
from gpuplatform.workloads.causes import StartupCause
from gpuplatform.workloads.function_worker import (
    BackoffSeconds,
    Concurrency,
    Framework,
    MaxDeliver,
    TimeoutSeconds,
)
from gpuplatform.workloads.images import ECHO_FUNCTION_IMAGE
from gpuplatform.workloads.template import PodTemplate
from serverless.api.links import result_link
from serverless.core.spec import FunctionSpec, IdleTimeoutSeconds, MaxWorkers, MinWorkers
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
    """Number of workers of a function, by state, at the last observation."""

    ready: int = Field(description="Ready workers.", examples=[1])
    starting: int = Field(description="Starting workers.", examples=[0])
    draining: int = Field(
        description="Workers that finish their invocations and then stop.", examples=[0]
    )


class FunctionReply(Reply):
    """A function: its spec and its status."""

    request_id: str = Field(description="Name of the function.", examples=["echo"])
    spec_name: str = Field(description="GPU spec of the workers.", examples=["h100-1g"])
    image: str = Field(description="Image of the workers.", examples=[ECHO_FUNCTION_IMAGE])
    template: Annotated[dict[str, Any], SchemaOf(PodTemplate)] | None = Field(
        description="Command, arguments, environment variables and ports."
    )
    framework: Framework
    min_workers: MinWorkers
    max_workers: MaxWorkers
    concurrency: Concurrency
    idle_timeout_seconds: IdleTimeoutSeconds
    timeout_seconds: TimeoutSeconds
    max_deliver: MaxDeliver
    backoff_seconds: BackoffSeconds
    generation: int = Field(
        description="Incremented by each change of what a worker runs.", examples=[1]
    )
    phase: FunctionPhase = Field(description="Summary of the state.", examples=["Ready"])
    reason: str = Field(
        description="Code that explains the phase; can be empty.",
        examples=[FunctionReason.IDLE.value],
        json_schema_extra=words(FunctionReason, empty=True),
    )
    message: str = Field(
        description="Explanation for people.", examples=["No invocation is open."]
    )
    cause: StartupCause | None = Field(
        description="What keeps its workers from starting; null: nothing, or no pod was created.",
        examples=[None],
    )
    backlog: int = Field(description="Open invocations: queued or running.", examples=[0])
    oldest_pending_seconds: float | None = Field(
        description="Age of the oldest open invocation; null without open invocations.",
        examples=[None],
    )
    workers: WorkersReply
    created_at: datetime = Field(description="When the creation was accepted.")
    updated_at: datetime = Field(description="When the spec last changed.")
    observed_at: datetime | None = Field(description="When queue and workers were last observed.")
    operation_id: str = Field(
        description="The operation that created it.", examples=["create-echo"]
    )

    @classmethod
    def of(cls, row: Function) -> Self:
        """Return the reply for a row of `with_oldest`."""
        spec = row.parsed_spec
        oldest: datetime | None = getattr(row, "oldest_open_at", None)
        return cls(
            **{name: getattr(spec, name) for name in _SPEC_FIELDS},
            template=conforming_block(PodTemplate, row.spec.get("template")),
            request_id=row.request_id,
            generation=row.generation,
            phase=FunctionPhase(row.phase),
            reason=row.reason,
            message=row.message,
            cause=StartupCause(row.cause) if row.cause else None,
            backlog=current_backlog(row),
            oldest_pending_seconds=(clock.now() - oldest).total_seconds() if oldest else None,
            workers=WorkersReply(
                ready=row.workers_ready,
                starting=row.workers_starting,
                draining=row.workers_draining,
            ),
            created_at=row.created_at,
            updated_at=row.updated_at,
            observed_at=row.observed_at,
            operation_id=row.operation.operation_id,
        )


_SPEC_FIELDS = tuple(FunctionSpec.model_fields.keys() - {"template"})


class ResultReply(Reply):
    """The function's answer."""

    status_code: int | None = Field(
        description="HTTP status of the answer; null: the function did not answer.",
        examples=[200],
    )
    content_type: str = Field(description="Media type of the body.", examples=["application/json"])
    headers: dict[str, str] = Field(description="Headers of the answer.", examples=[{}])
    body: str | None = Field(
        description="Body of the answer; null in lists: follow `href`.",
        examples=['{"text": "hello"}'],
    )
    body_encoding: Literal["text", "base64"] | None = Field(
        description="Encoding of `body`; null in lists.", examples=["text"]
    )
    body_bytes: int = Field(
        description="Size of the whole answer in bytes, stored or not.", examples=[17]
    )
    truncated: bool = Field(description="Whether only the first part of the answer is stored.")
    href: str = Field(
        description="Link to the body, valid without a token for ten minutes.",
        examples=[
            "/api/v1/serverless/invocations/order-4711/result?expires=1769860800&sig=1-0123abcd"
        ],
    )


class BlockedReply(Reply):
    """Why a function cannot serve a queued invocation."""

    reason: str = Field(
        description="Reason of the function.",
        examples=[FunctionReason.NO_CAPACITY.value],
        json_schema_extra=words(FunctionReason),
    )
    message: str = Field(
        description="Explanation for people.",
        examples=["No stock of the GPU spec 'h100-1g' is ready."],
    )
    cause: StartupCause | None = Field(
        description="What keeps its workers from starting, if that is known.", examples=[None]
    )
    since: datetime = Field(description="When phase or reason of the function last changed.")

    @classmethod
    def of(cls, function: Function) -> Self:
        """Return the reply for a function that cannot serve invocations."""
        return cls(
            reason=function.reason,
            message=function.message,
            cause=StartupCause(function.cause) if function.cause else None,
            since=function.phase_since,
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
        description="Why the function cannot serve this queued invocation; null: it can."
    )
    failure_class: str | None = Field(
        description="Code that explains why it did not succeed; null: it did, or is open.",
        json_schema_extra={"enum": [*(one.value for one in FailureClass), None]},
    )
    attempts: int = Field(description="Number of deliveries that a worker started.", examples=[1])
    worker: str | None = Field(
        description="Worker of the latest delivery; null: none yet.", examples=["fn-1-0123abcd"]
    )
    accepted_at: datetime = Field(description="When it was accepted.")
    started_at: datetime | None = Field(
        description="When a worker first started it; null until then.", examples=[EXAMPLE_TIME]
    )
    completed_at: datetime | None = Field(
        description="When it ended; null until then.", examples=[EXAMPLE_TIME]
    )
    result: ResultReply | None = Field(
        description="The answer; null until the function has answered.",
        examples=[reply_example(ResultReply)],
    )
    error: str | None = Field(description="Explanation for people why it did not succeed.")

    @classmethod
    def of(cls, row: Invocation, *, has_body: bool = True) -> Self:
        """Return the reply for a row; `has_body` is False for a row read without the body."""
        return cls(
            invocation_id=row.invocation_id,
            request_id=row.function.request_id,
            mode=InvocationMode(row.mode),
            state=InvocationState(row.state),
            blocked=BlockedReply.of(row.function) if row.is_blocked else None,
            failure_class=row.failure_class or None,
            attempts=row.attempts,
            worker=row.worker or None,
            accepted_at=row.accepted_at,
            started_at=row.started_at,
            completed_at=row.completed_at,
            result=_result(row, has_body=has_body),
            error=row.error or None,
        )


def has_result(row: Invocation) -> bool:
    """Return whether the function answered."""
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
    """Return the body and its encoding: text if it is UTF-8, otherwise base64."""
    try:
        return body.decode(), "text"
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), "base64"
