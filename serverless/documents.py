"""The document of an invocation, which the API returns and webhooks contain."""

import base64
import json
from datetime import datetime
from typing import Annotated, Final, Literal, Self
from uuid import UUID

from pydantic import Field

from gpuplatform.api.examples import EXAMPLE_TIME, reply_example
from gpuplatform.api.schema import NullIfEmpty, Reply, words
from gpuplatform.workloads.causes import StartupCause
from serverless.core.webhooks import origin_of
from serverless.links import result_link
from serverless.models import Invocation
from serverless.phases import FailureClass, FunctionReason, InvocationMode, InvocationState
from serverless.webhook_phases import WebhookFailure, WebhookState

WEBHOOK_EVENT: Final = "invocation.ended"
"""Type of the event in the body of a webhook."""

EXAMPLE_DELIVERY: Final = "0f6c1d2e-3b4a-4968-8766-554433221100"

MAX_WEBHOOK_RESULT_BYTES: Final = 256 * 1024
"""Maximum size in bytes of a result that a webhook contains; many servers accept at most 1 MiB."""

Cause = Annotated[
    StartupCause | None,
    NullIfEmpty,
    Field(
        description="Code of the problem that prevents workers from starting; null if no problem"
        " was observed.",
        examples=[None],
    ),
]


class ResultReply(Reply):
    """The response of the function to an invocation."""

    status_code: int | None = Field(
        description="HTTP status of the response; null if the function did not respond.",
        examples=[200],
    )
    content_type: str = Field(description="Media type of the body.", examples=["application/json"])
    headers: dict[str, str] = Field(description="Headers of the response.", examples=[{}])
    body: str | None = Field(
        description="Body of the response; null in lists, and without the permission `payloads`.",
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
    href: str | None = Field(
        description="Link to the body, which can be used without a token for ten minutes; null"
        " without the permission `payloads`.",
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


class WebhookAttemptReply(Reply):
    """One attempt to send a webhook."""

    delivery_id: UUID = Field(description="ID of the delivery.", examples=[EXAMPLE_DELIVERY])
    started_at: datetime = Field(description="Time of the attempt.", examples=[EXAMPLE_TIME])
    duration_seconds: float = Field(description="Duration in seconds.", examples=[0.2])
    status_code: int | None = Field(
        description="HTTP status of the receiver; null if it did not respond.", examples=[200]
    )
    reason: Annotated[WebhookFailure | None, NullIfEmpty] = Field(
        description="Code that explains the failure; null if the webhook was delivered.",
        examples=[None],
    )
    message: str = Field(description="Human-readable details of the failure.", examples=[""])


class WebhookReply(Reply):
    """The webhook of an invocation."""

    url: str = Field(description="URL.", examples=["https://example.com/hooks/gpu"])
    state: WebhookState = Field(description="State of the webhook.", examples=["Delivered"])
    delivery_id: UUID | None = Field(
        description="ID of the current delivery, which is the same for all its attempts; null"
        " until the invocation has ended.",
        examples=[EXAMPLE_DELIVERY],
    )
    next_attempt_at: datetime | None = Field(
        description="Time before which it is not sent again; null if it is due or has ended.",
        examples=[None],
    )
    attempts: list[WebhookAttemptReply] = Field(
        description="Latest attempts, oldest first.",
        examples=[[reply_example(WebhookAttemptReply)]],
    )

    @classmethod
    def of(cls, row: Invocation, *, has_values: bool) -> Self | None:
        """Return the webhook of an invocation, or `None` if it has none.

        Without `has_values`, the URL has no path.
        """
        if not row.on_done_url:
            return None
        return cls(
            url=row.on_done_url if has_values else origin_of(row.on_done_url),
            state=WebhookState(row.webhook_state),
            delivery_id=row.webhook_id,
            next_attempt_at=row.webhook_after,
            attempts=[WebhookAttemptReply(**attempt) for attempt in row.webhook_attempts],
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
    webhook: WebhookReply | None = Field(
        description="Webhook of the invocation; null if it has none."
    )

    @classmethod
    def of(
        cls,
        row: Invocation,
        *,
        has_body: bool = True,
        has_payloads: bool = True,
        has_values: bool = True,
    ) -> Self:
        """Return the response for a row.

        Args:
            row: The invocation.
            has_body: Whether the row was read with the body of the result.
            has_payloads: Whether the reader may read the body and the headers of the result.
            has_values: Whether the reader may read the path of the webhook, which can contain a
                secret.
        """
        columns = cls.model_fields.keys() - {"request_id", "blocked", "result", "webhook"}
        return cls(
            **{name: getattr(row, name) for name in columns},
            request_id=row.function.request_id,
            blocked=BlockedReply.model_validate(row.function) if row.is_blocked else None,
            result=_result(row, has_body=has_body, has_payloads=has_payloads),
            webhook=WebhookReply.of(row, has_values=has_values),
        )


def webhook_body(row: Invocation) -> bytes:
    """Return the body of the webhook of an ended invocation.

    It contains the document of the invocation without the webhook itself. The body of a result
    larger than `MAX_WEBHOOK_RESULT_BYTES` is null, as in lists.
    """
    document = InvocationReply.of(row, has_body=row.result_bytes <= MAX_WEBHOOK_RESULT_BYTES)
    data = document.model_dump(mode="json", by_alias=True, exclude={"webhook"})
    event = {"type": WEBHOOK_EVENT, "timestamp": data["completedAt"], "data": data}
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()


def has_result(row: Invocation) -> bool:
    """Return whether the function has responded to the invocation."""
    return row.completed_at is not None and row.status_code is not None


def _result(row: Invocation, *, has_body: bool, has_payloads: bool) -> ResultReply | None:
    if not has_result(row):
        return None
    is_shown = has_body and has_payloads
    body, encoding = _encoded(bytes(row.result_body or b"")) if is_shown else (None, None)
    return ResultReply(
        status_code=row.status_code,
        content_type=row.result_content_type,
        headers=row.result_headers if has_payloads else {},
        body=body,
        body_encoding=encoding,
        body_bytes=row.result_bytes,
        truncated=row.is_truncated,
        href=result_link(row) if has_payloads else None,
    )


def _encoded(body: bytes) -> tuple[str, Literal["text", "base64"]]:
    """Return the body and its encoding: `text` if the body is UTF-8, otherwise `base64`."""
    try:
        return body.decode(), "text"
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), "base64"
