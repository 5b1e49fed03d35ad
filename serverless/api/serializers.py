"""What functions and invocations look like from outside."""

import base64
from datetime import datetime
from typing import Any, Literal, Self

from pydantic import Field

from gpuplatform import clock
from gpuplatform.api.schema import Reply
from serverless.core.spec import FunctionSpec
from serverless.models import Function, Invocation
from serverless.phases import FunctionPhase, InvocationMode, InvocationState
from serverless.signing import result_link


class WorkersReply(Reply):
    """The workers of a function, as they were seen last."""

    ready: int = Field(description="Workers that serve.", examples=[1])
    starting: int = Field(description="Workers that are being made.", examples=[0])
    draining: int = Field(
        description="Workers that finish what they have begun and end.", examples=[0]
    )


class FrameworkReply(Reply):
    """Where the function listens inside its worker."""

    invoke_path: str = Field(description="Where an invocation is posted to.", examples=["/invoke"])
    health_path: str = Field(description="Answers 200 when it can be invoked.")
    socket_path: str = Field(description="The unix socket that it listens on.")


class FunctionReply(Reply):
    """A function: what is wanted, and how it is doing."""

    request_id: str = Field(description="Its name.", examples=["echo"])
    spec_name: str = Field(description="The GPU spec of its workers.", examples=["g1.1"])
    image: str = Field(description="The image of its workers.")
    template: dict[str, Any] | None = Field(description="Command, args, envs and ports.")
    framework: FrameworkReply
    min_workers: int = Field(description="So many are kept without work.", examples=[0])
    max_workers: int = Field(description="There are never more.", examples=[2])
    concurrency: int = Field(description="What one worker takes at the same time.", examples=[1])
    idle_timeout_seconds: int = Field(
        description="Without work for so long, workers are stopped.", examples=[300]
    )
    timeout_seconds: int = Field(description="How long one invocation may take.", examples=[30])
    max_deliver: int = Field(description="How often one is given to workers.", examples=[5])
    backoff_seconds: list[int] = Field(description="The pauses in between.", examples=[[2, 10]])
    generation: int = Field(description="Generation of what is wanted.", examples=[1])
    phase: FunctionPhase = Field(description="How it is doing.", examples=["Ready"])
    reason: str = Field(description="Why, as a word.", examples=["Idle"])
    message: str = Field(description="Why, for people.")
    backlog: int = Field(
        description="Invocations that wait or run, as they were counted last.", examples=[0]
    )
    oldest_pending_seconds: float | None = Field(
        description="Age of the oldest invocation that has not ended; null without one.",
        examples=[None],
    )
    workers: WorkersReply
    created_at: datetime = Field(description="When it was asked for.")
    updated_at: datetime = Field(description="When its spec last changed.")
    observed_at: datetime | None = Field(description="When queue and workers were looked at last.")
    operation_id: str = Field(description="The operation that made it.", examples=["make-echo"])

    @classmethod
    def of(cls, row: Function) -> Self:
        """Return the reply for a row of `functions_seen`."""
        spec = FunctionSpec.parse(row.spec)
        framework = spec.framework
        oldest: datetime | None = getattr(row, "oldest_open_at", None)
        return cls(
            request_id=row.request_id,
            spec_name=spec.spec_name,
            image=spec.image,
            template=row.spec.get("template"),
            framework=FrameworkReply(
                invoke_path=framework.invoke_path,
                health_path=framework.health_path,
                socket_path=framework.socket_path,
            ),
            min_workers=spec.min_workers,
            max_workers=spec.max_workers,
            concurrency=spec.concurrency,
            idle_timeout_seconds=spec.idle_timeout_seconds,
            timeout_seconds=spec.timeout_seconds,
            max_deliver=spec.max_deliver,
            backoff_seconds=list(spec.backoff_seconds),
            generation=row.generation,
            phase=FunctionPhase(row.phase),
            reason=row.reason,
            message=row.message,
            backlog=row.backlog,
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


class ResultReply(Reply):
    """What the function answered."""

    status_code: int | None = Field(description="Its status; null: it did not answer.")
    content_type: str = Field(description="Of the body.", examples=["application/json"])
    headers: dict[str, str] = Field(description="Headers of the answer.")
    body: str | None = Field(description="The answer; null in lists: follow `href`.")
    body_encoding: Literal["text", "base64"] | None = Field(description="How it is written.")
    body_bytes: int = Field(description="Size of the whole answer, kept or not.", examples=[17])
    truncated: bool = Field(description="Whether only its beginning was kept.")
    href: str = Field(description="Where the body is, without a token, for ten minutes.")


class InvocationReply(Reply):
    """One request to a function, and what became of it."""

    invocation_id: str = Field(description="Identifies it.", examples=["order-4711"])
    request_id: str = Field(description="The function.", examples=["echo"])
    mode: InvocationMode = Field(description="Whether the caller waits.", examples=["async"])
    state: InvocationState = Field(description="What has become of it.", examples=["Succeeded"])
    failure_class: str | None = Field(
        description="Why it did not succeed, as a word.", examples=[None]
    )
    attempts: int = Field(description="Deliveries that a worker began.", examples=[1])
    worker: str | None = Field(description="The worker that had it last; null: none yet.")
    accepted_at: datetime = Field(description="When it was accepted.")
    started_at: datetime | None = Field(description="When a worker began with it first.")
    completed_at: datetime | None = Field(description="When it ended.")
    result: ResultReply | None = Field(description="The answer; null while there is none.")
    error: str | None = Field(description="Why it did not succeed, for people.")

    @classmethod
    def of(cls, row: Invocation, *, has_body: bool = True) -> Self:
        """Return the reply for a row; without the body for one that was read without it."""
        return cls(
            invocation_id=row.invocation_id,
            request_id=row.function.request_id,
            mode=InvocationMode(row.mode),
            state=InvocationState(row.state),
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
    """Say whether the function answered."""
    return row.completed_at is not None and row.status_code is not None


def _result(row: Invocation, *, has_body: bool) -> ResultReply | None:
    if not has_result(row):
        return None
    body, encoding = _written(bytes(row.result_body or b"")) if has_body else (None, None)
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


def _written(body: bytes) -> tuple[str, Literal["text", "base64"]]:
    """Return the body as JSON can carry it: text as text, anything else as base64."""
    try:
        return body.decode(), "text"
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), "base64"
