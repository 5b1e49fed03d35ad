"""Invocations when a process crashes, hangs or is stopped."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from nats.aio.client import Client
from nats.js.client import JetStreamContext

from gpuplatform.dev.embedded.processes import wait_until
from serverless.queue.credentials import worker_credentials
from serverless.queue.names import (
    INVOCATIONS,
    RESULTS,
    consumer_name,
    inbox_prefix,
    invocation_subject,
    result_subject,
)
from tests.sidecar.rig import ACK_WAIT, FUNCTION, TENANT, TOKEN, Rig

pytestmark = pytest.mark.processes


def test_sidecar_waits_for_function(rig: Rig) -> None:
    sidecar = rig.sidecar()
    assert wait_until(lambda: sidecar.get("/livez") == 200, 10)
    key = rig.invoke()
    assert sidecar.get("/readyz") == 503

    rig.function()

    assert rig.finished(key).attempt == 1
    assert sidecar.get("/readyz") == 200


def test_invocation_of_killed_worker_is_delivered_to_another(rig: Rig) -> None:
    first, function = rig.worker()
    key = rig.invoke(hold=str(held := rig.fifo()))
    rig.started(key)

    first.process.kill()
    function.kill()
    function.wait(10)
    rig.worker()

    rig.started(key, attempt=2)
    rig.release(held)
    found = rig.finished(key)
    assert (found.state, found.attempt) == ("Succeeded", 2)
    assert wait_until(lambda: rig.messages() == [], 5)
    rig.read_reports()
    assert len(rig.all_finished(key)) == 1


def test_long_call_is_kept_beyond_ack_wait(rig: Rig) -> None:
    rig.worker()
    rig.worker()  # Another worker that could get it.
    key = rig.invoke(hold=str(held := rig.fifo()), timeout=30)
    rig.started(key)

    # Only the passing of time can show that nothing happens.
    assert not wait_until(lambda: rig.backlog().in_progress != 1, 2 * ACK_WAIT)
    rig.release(held)

    assert rig.finished(key).attempt == 1


def test_drained_sidecar_finishes_and_fetches_nothing(rig: Rig) -> None:
    sidecar, _ = rig.worker()
    key = rig.invoke(hold=str(held := rig.fifo()))
    rig.started(key)

    sidecar.terminate()
    assert wait_until(lambda: sidecar.get("/readyz") == 503, 5)
    later = rig.invoke()
    rig.release(held)

    assert rig.finished(key).state == "Succeeded"
    assert sidecar.process.wait(10) == 0
    rig.read_reports()
    assert rig.all_finished(later) == []
    assert rig.backlog().pending == 1


def test_drain_request_waits_and_requires_token(rig: Rig) -> None:
    sidecar, _ = rig.worker()
    key = rig.invoke(hold=str(held := rig.fifo()))
    rig.started(key)
    assert sidecar.get("/drain", "somebody's") == 403
    assert sidecar.get("/readyz") == 200
    answers: list[int] = []

    hook = threading.Thread(target=lambda: answers.append(sidecar.get("/drain", TOKEN)))
    hook.start()
    assert wait_until(lambda: sidecar.get("/readyz") == 503, 5)
    assert answers == []
    rig.release(held)
    hook.join(10)

    assert answers == [200]
    assert rig.finished(key).state == "Succeeded"
    assert sidecar.process.poll() is None
    sidecar.terminate()
    assert sidecar.process.wait(10) == 0


def test_late_invocation_is_returned_immediately(rig: Rig) -> None:
    rig.consume(max_deliver=3, ack_wait=60)
    sidecar, _ = rig.worker(DRAIN_SECONDS="1")
    key = rig.invoke(hold=str(held := rig.fifo()), timeout=60)
    rig.started(key)

    sidecar.terminate()

    assert sidecar.process.wait(10) == 0
    rig.release(held)
    rig.sidecar()
    rig.started(key, attempt=2)
    rig.release(held)
    assert rig.finished(key).attempt == 2


def test_concurrency_limits_invocations_in_progress(rig: Rig) -> None:
    rig.worker(CONCURRENCY="3")
    held = [rig.fifo() for _ in range(4)]
    keys = [rig.invoke(hold=str(fifo)) for fifo in held]

    for key in keys[:3]:
        rig.started(key)
    assert rig.backlog().in_progress == 3

    for fifo in held:
        rig.release(fifo)
    assert {rig.finished(key).state for key in keys} == {"Succeeded"}


def test_result_waits_for_unavailable_queue(rig: Rig) -> None:
    rig.worker()
    key = rig.invoke(hold=str(held := rig.fifo()), timeout=60)
    rig.started(key)

    rig.server.kill()
    rig.release(held)
    rig.server.start()

    found = rig.finished(key)
    assert found.state == "Succeeded"
    assert wait_until(lambda: rig.messages() == [], 10)


def test_result_waits_for_full_stream(rig: Rig) -> None:
    rig.worker()
    key = rig.invoke(hold=str(held := rig.fifo()), timeout=60)
    rig.started(key)
    later = rig.invoke()

    rig.queue.call(lambda js: js.delete_stream(RESULTS))
    rig.release(held)
    # Only the passing of time can show that nothing is acknowledged or started.
    assert not wait_until(lambda: rig.backlog().pending == 0, 1)
    assert rig.backlog().in_progress == 1
    rig.queue.ensure()

    assert rig.finished(key).attempt == 1
    assert rig.finished(later).attempt == 1


@pytest.mark.long
@pytest.mark.parametrize("lost", ["the consumer", "the message", "both streams"])
def test_unconfirmed_acknowledgement_does_not_block(rig: Rig, lost: str) -> None:
    rig.worker()
    key = rig.invoke(hold=str(held := rig.fifo()), timeout=60)
    rig.started(key)

    lose(rig, lost)
    rig.release(held)

    assert rig.finished(key).state == "Succeeded"
    if lost == "the consumer":
        rig.release(held)  # The new consumer delivers everything again.
    assert rig.finished(rig.invoke(), seconds=40).state == "Succeeded"
    assert wait_until(lambda: rig.messages() == [], 10)


def lose(rig: Rig, what: str) -> None:
    """Delete the message that a worker is processing."""

    async def remove(js: JetStreamContext) -> None:
        if what == "the message":
            await js.purge_stream(INVOCATIONS)
        elif what == "the consumer":
            await js.delete_consumer(INVOCATIONS, consumer_name(FUNCTION))
        else:
            for stream in (INVOCATIONS, RESULTS):
                await js.delete_stream(stream)

    rig.queue.call(remove)
    rig.queue.ensure()
    rig.consume(max_deliver=3)


@pytest.mark.parametrize(
    "subject",
    [
        f"$JS.API.CONSUMER.MSG.NEXT.{INVOCATIONS}.{consumer_name(8)}",
        f"$JS.API.STREAM.MSG.GET.{INVOCATIONS}",
        f"$JS.API.CONSUMER.CREATE.{INVOCATIONS}",
        f"$JS.API.CONSUMER.DELETE.{INVOCATIONS}.{consumer_name(FUNCTION)}",
        f"$JS.API.STREAM.PURGE.{INVOCATIONS}",
        f"$JS.API.STREAM.CREATE.{INVOCATIONS}",
        f"$JS.API.STREAM.UPDATE.{INVOCATIONS}",
        f"$JS.ACK.{INVOCATIONS}.{consumer_name(8)}.1.1.1.1.1",
        invocation_subject(TENANT, FUNCTION),
        invocation_subject(TENANT, 8),
        result_subject(TENANT, 8),
        result_subject("other", FUNCTION),
    ],
)
def test_worker_cannot_publish_on_subjects_of_others(rig: Rig, subject: str) -> None:
    async def publish(client: Client) -> None:
        await client.publish(subject, b"{}")

    assert "permissions violation for publish" in refusal(rig, publish)


@pytest.mark.parametrize(
    "subject",
    [
        "gpu.invoke.>",
        invocation_subject(TENANT, 8),
        invocation_subject(TENANT, FUNCTION),
        "gpu.result.>",
        "$JS.EVENT.ADVISORY.>",
        "_INBOX.>",
        f"{inbox_prefix(8)}.>",
        f"{inbox_prefix(FUNCTION)}0.>",
        ">",
    ],
)
def test_worker_cannot_subscribe_to_subjects_of_others(rig: Rig, subject: str) -> None:
    async def subscribe(client: Client) -> None:
        await client.subscribe(subject)

    assert "permissions violation for subscription" in refusal(rig, subscribe)


def refusal(rig: Rig, act: Callable[[Client], Awaitable[None]]) -> str:
    """Return the server's permission error for an action of a worker."""
    credentials = worker_credentials(rig.server.account, TENANT, FUNCTION)

    async def run() -> str:
        errors: asyncio.Queue[str] = asyncio.Queue()

        async def note(error: Exception) -> None:
            errors.put_nowait(str(error))

        client = Client()
        options: dict[str, Any] = {**credentials.callbacks(), "error_cb": note}
        await client.connect(rig.server.url, **options)
        try:
            await act(client)
            return await asyncio.wait_for(errors.get(), 5)
        finally:
            await client.close()

    return asyncio.run(run())
