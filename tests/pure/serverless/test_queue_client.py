"""The sidecar's client of a queue with a lower limit than the platform's."""

import asyncio
from typing import Any, cast

import pytest
from nats.aio.msg import Msg

from gpuplatform.clock import now
from serverless.queue.messages import EndReport, decode_report
from serverless.sidecar.queue_client import QueueClient
from serverless.sidecar.settings import Settings

LIMIT = 2000


class Server:
    """The connection of the client, and the acknowledged message."""

    max_payload = LIMIT
    is_connected = True

    def __init__(self) -> None:
        self.published: list[bytes] = []

    def jetstream(self, **_: Any) -> "Server":
        return self

    async def publish(self, _: str, body: bytes, **__: Any) -> None:
        self.published.append(body)

    async def ack_sync(self, **_: Any) -> None:
        """Confirm the acknowledgement."""


def reported(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> EndReport:
    """Return the report that reaches the server."""
    server = Server()
    environment = {
        "SERVERLESS_QUEUE_URL": "nats://queue:4222",
        "SERVERLESS_CREDENTIALS_DIRECTORY": "/run/queue",
        "SERVERLESS_TENANT": "acme",
        "SERVERLESS_FUNCTION_ID": "7",
        "SERVERLESS_WORKER_NAME": "fn-7-1",
    }
    client = QueueClient(Settings.from_environment(environment))
    monkeypatch.setattr(client, "_client", server)
    moment = now()
    report = EndReport(
        key=1,
        publication=1,
        receipt="receipt",
        attempt=1,
        sequence=1,
        started_at=moment,
        completed_at=moment,
        **fields,
    )
    asyncio.run(client.report_end(cast("Msg", server), report))
    found = decode_report(server.published[0])
    assert isinstance(found, EndReport)
    return found


@pytest.mark.parametrize(
    ("size", "outcome"),
    [
        (LIMIT // 2, ("Succeeded", "", LIMIT // 2)),
        (LIMIT, ("Failed", "result_too_large", 0)),
    ],
    ids=["within the limit", "beyond the limit"],
)
def test_success_beyond_limit_of_server_is_failure(
    size: int, outcome: tuple[str, str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = reported(monkeypatch, state="Succeeded", status_code=200, body=b"x" * size, size=size)

    assert (found.state, found.failure_class, len(found.body)) == outcome
    assert found.size == size
