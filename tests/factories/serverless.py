"""Rows of functions and invocations, and a worker of a function."""

import itertools
from typing import Any

from nats.aio.msg import Msg

from gpuplatform.clock import now
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationPhase
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.selectors import tenant_by_name
from serverless.loops.result_store import ResultStore
from serverless.models import Function, Invocation
from serverless.operations import ensure_consumer
from serverless.phases import FunctionPhase
from serverless.queue.gateway import Queue
from serverless.queue.messages import (
    MSG_ID,
    EndReport,
    InvocationMessage,
    Report,
    StartReport,
    decode_invocation,
)
from serverless.queue.names import INVOCATIONS, RESULTS, consumer_name, result_subject
from serverless.requests import InvocationCreate
from serverless.services.invocations import invocation_accept

_numbers = itertools.count(1)

SPEC = {"specName": "g1.1", "image": "echo:1"}


def tenant_row(name: str) -> Tenant:
    """Insert another tenant."""
    return Tenant.objects.create(name=name, namespace=f"tenant-{name}")


def function_row(name: str = "", *, tenant: Tenant | None = None, **spec: Any) -> Function:
    """Insert the row of a created function."""
    number = next(_numbers)
    owner = tenant or tenant_by_name()
    name = name or f"fn-{number}"
    operation = Operation.objects.create(
        tenant=owner,
        operation_id=f"make-{name}-{number}",
        kind="function.create",
        request_hash="0" * 64,
        hash_version=1,
        phase=OperationPhase.SUCCEEDED,
        object_kind="Function",
        object_namespace=owner.namespace,
        object_name=name,
        ended_at=now(),
    )
    return Function.objects.create(
        tenant=owner,
        operation=operation,
        request_id=name,
        spec={**SPEC, **spec},
        spec_name="g1.1",
        phase=FunctionPhase.READY,
    )


def accept(function: Function, payload: str = "hello", **fields: Any) -> Invocation:
    """Accept an invocation as the API does."""
    body = {"requestID": function.request_id, "payload": payload, **fields}
    request = InvocationCreate.parse(body)
    return invocation_accept(tenant=function.tenant, body=request).invocation


class Worker:
    """Fetches and reports like a sidecar, step by step."""

    def __init__(self, queue: Queue, function: Function, name: str = "worker-1") -> None:
        self._queue = queue
        self.function = function
        self.name = name
        ensure_consumer(queue, function)

    def take(self, most: int = 1, *, seconds: float = 2.0) -> list[Msg]:
        """Fetch the available messages, or wait for the first one."""
        consumer = consumer_name(self.function.pk)
        return self._queue.fetch(INVOCATIONS, consumer, most, seconds)

    def take_one(self) -> Msg:
        """Fetch one invocation, or fail if none is available."""
        (received,) = self.take(1)
        return received

    @staticmethod
    def read(received: Msg) -> InvocationMessage:
        """Return the invocation of a message."""
        return decode_invocation(received.headers, received.data)

    def started(self, received: Msg, **changes: Any) -> StartReport:
        """Return the report of the start."""
        return StartReport(**{**self._head(received), **changes})

    def finished(self, received: Msg, **changes: Any) -> EndReport:
        """Return the report of the end, with the payload as the response body by default."""
        body = changes.get("body", self.read(received).payload)
        result = {
            "state": "Succeeded",
            "status_code": 200,
            "content_type": "text/plain",
            "body": body,
            "size": len(body),
            "completed_at": now(),
        }
        return EndReport(**{**self._head(received), **result, **changes})

    def _head(self, received: Msg) -> dict[str, Any]:
        message = self.read(received)
        return {
            "key": message.key,
            "publication": message.publication,
            "receipt": message.receipt,
            "attempt": received.metadata.num_delivered,
            "sequence": received.metadata.sequence.stream,
            "worker": self.name,
            "started_at": now(),
        }

    def report(self, *reports: Report) -> None:
        """Publish reports."""
        for report in reports:
            self.publish(report.encode(), report.message_id)

    def publish(self, body: bytes, message_id: str = "") -> None:
        """Publish a body on the function's result subject."""
        subject = result_subject(self.function.tenant.name, self.function.pk)
        headers = {MSG_ID: message_id} if message_id else None
        self._queue.call(lambda js: js.publish(subject, body, headers=headers))

    def acknowledge(self, received: Msg) -> None:
        """Acknowledge the invocation."""
        self._queue.acknowledge([received])

    def serve_one(self) -> Msg:
        """Fetch one invocation, echo it, and acknowledge it."""
        received = self.take_one()
        self.report(self.started(received), self.finished(received))
        self.acknowledge(received)
        return received


def queued(queue: Queue, stream: str = INVOCATIONS) -> int:
    """Return the number of messages in the stream."""
    return int(queue.call(lambda js: js.stream_info(stream)).state.messages)


def store_all(store: ResultStore, queue: Queue) -> None:
    """Store all reports in the stream; one step may fetch only a part of them."""
    while queued(queue, RESULTS):
        store.step()
