"""The credentials of a worker do not give access to other functions."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import nats
import pytest
from nats.aio.client import Client

from gpuplatform.nats.tokens import Credentials
from serverless.loops.dead_letters import DeadLetters
from serverless.loops.relay import Relay
from serverless.loops.result_store import ResultStore
from serverless.models import Function, Invocation
from serverless.queue.credentials import worker_credentials
from serverless.queue.gateway import Queue
from serverless.queue.messages import MSG_ID
from serverless.queue.names import (
    ADVISORIES,
    INVOCATIONS,
    RESULTS,
    consumer_name,
    inbox_prefix,
    invocation_subject,
    result_subject,
)
from serverless.queue.pulling import Puller
from tests.factories.serverless import Worker, accept, function_row, store_all, tenant_row
from tests.fakes.queue_server import QueueServer

pytestmark = pytest.mark.django_db

KINDS = ("started", "finished")


class Thief:
    """A process with the credentials of one function's workers."""

    def __init__(self, server: QueueServer, function: Function) -> None:
        made = worker_credentials(server.account, function.tenant.name, function.pk)
        self._credentials = Credentials.from_file(made.file())
        self._url = server.url
        self._inbox = inbox_prefix(function.pk)

    def do(self, act: Callable[[Client], Awaitable[None]]) -> list[str]:
        """Act over a connection, and return the server's permission errors."""

        async def run() -> list[str]:
            refused: list[str] = []

            async def note(error: Exception) -> None:
                refused.append(str(error).lower())

            client = await nats.connect(
                self._url,
                **self._credentials.callbacks(),
                inbox_prefix=self._inbox,
                error_cb=note,
                allow_reconnect=False,
            )
            await act(client)
            await client.flush()
            await client.close()
            return refused

        return asyncio.run(run())


@pytest.fixture
def victim(queue: Queue, cluster: object) -> Function:
    """A function of another tenant, with a queued invocation."""
    function = function_row("victim", tenant=tenant_row("victim"))
    Worker(queue, function)
    accept(function)
    Relay(queue).publish()
    return function


@pytest.fixture
def own(queue: Queue, cluster: object) -> Function:
    """The thief's own function, with queued invocations."""
    function = function_row("own")
    Worker(queue, function)
    for _ in range(10):
        accept(function, '{"forged": true}')
    Relay(queue).publish()
    return function


def test_worker_serves_its_own_function(
    queue: Queue, queue_server: QueueServer, own: Function
) -> None:
    async def work(client: Client) -> None:
        puller = Puller(client, INVOCATIONS, consumer_name(own.pk))
        (message,) = await puller.fetch(1, 2.0)
        subject = result_subject("default", own.pk)
        made = await client.request(subject, b"{}", timeout=2)
        assert b'"seq":1' in made.data
        await message.ack_sync(timeout=2)

    assert Thief(queue_server, own).do(work) == []
    backlog = queue.backlog("default", own.pk)
    assert backlog is not None
    assert backlog.total == 9


def _subjects_of_others(own: Function, victim: Function) -> list[str]:
    consumer = f"{INVOCATIONS}.{consumer_name(victim.pk)}"
    return [
        f"$JS.API.CONSUMER.MSG.NEXT.{consumer}",
        f"$JS.API.CONSUMER.MSG.NEXT.{RESULTS}.results",
        f"$JS.API.CONSUMER.DELETE.{consumer}",
        f"$JS.API.CONSUMER.INFO.{consumer}",
        f"$JS.API.CONSUMER.CREATE.{INVOCATIONS}",
        f"$JS.API.STREAM.MSG.GET.{INVOCATIONS}",
        f"$JS.API.DIRECT.GET.{INVOCATIONS}",
        f"$JS.API.STREAM.PURGE.{INVOCATIONS}",
        f"$JS.API.STREAM.INFO.{INVOCATIONS}",
        f"$JS.ACK.{consumer}.1.1.1.1.0",
        "$JS.API.INFO",
        "$SYS.REQ.SERVER.PING",
        result_subject("victim", victim.pk),
        invocation_subject("victim", victim.pk),
        invocation_subject("default", own.pk),
        f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{consumer}",
    ]


def test_subjects_of_others_are_denied(
    queue: Queue, queue_server: QueueServer, own: Function, victim: Function
) -> None:
    sent = _subjects_of_others(own, victim)
    heard = [">", "gpu.>", "_INBOX.>", f"{inbox_prefix(victim.pk)}.>", "$JS.>", "$JS.EVENT.>"]

    refused: list[str] = []

    def not_refused(subjects: list[str]) -> list[str]:
        return [one for one in subjects if not any(f'"{one.lower()}"' in text for text in refused)]

    async def try_everything(client: Client) -> None:
        for subject in not_refused(sent):
            await client.publish(subject, b'{"batch": 1, "seq": 1}', reply=client.new_inbox())
            await client.flush()
        for subject in not_refused(heard):
            await client.subscribe(subject)
            await client.flush()

    thief = Thief(queue_server, own)
    for _ in range(5):  # The client sometimes loses an error; allowed subjects never cause one.
        refused += thief.do(try_everything)

    assert not_refused([*sent, *heard]) == []
    backlog = queue.backlog("victim", victim.pk)
    assert backlog is not None
    assert (backlog.pending, backlog.in_progress) == (1, 0)


def test_misdirected_replies_do_not_reach_others(
    queue: Queue,
    queue_server: QueueServer,
    own: Function,
    victim: Function,
    store: ResultStore,
    dead_letters: DeadLetters,
) -> None:
    pull = f"$JS.API.CONSUMER.MSG.NEXT.{INVOCATIONS}.{consumer_name(own.pk)}"
    in_progress = Worker(queue, victim).take_one()
    targets = [
        str(in_progress.reply),
        f"$JS.API.CONSUMER.MSG.NEXT.{INVOCATIONS}.{consumer_name(victim.pk)}",
        result_subject("victim", victim.pk),
        invocation_subject("victim", victim.pk),
        f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{INVOCATIONS}.{consumer_name(victim.pk)}",
        f"$JS.API.STREAM.PURGE.{INVOCATIONS}",
        f"$JS.API.STREAM.DELETE.{INVOCATIONS}",
    ]

    async def misdirect(client: Client) -> None:
        for target in targets:
            await client.publish(pull, b'{"batch": 1, "expires": 500000000}', reply=target)
            await client.publish(result_subject("default", own.pk), b"x", reply=target)
        await client.flush()
        await client.request(result_subject("default", own.pk), b"the last", timeout=2)

    Thief(queue_server, own).do(misdirect)
    while messages(queue, RESULTS) or messages(queue, ADVISORIES):
        store.step()
        dead_letters.step()

    backlog = queue.backlog("victim", victim.pk)
    assert backlog is not None
    assert (backlog.pending, backlog.in_progress) == (0, 1)
    row = Invocation.objects.get(function=victim)
    assert (row.state, row.attempts) == ("Queued", 0)
    assert queue.message(row.stream_sequence or 0) is not None


def test_reports_of_others_cannot_be_suppressed(
    queue: Queue, queue_server: QueueServer, own: Function, victim: Function, store: ResultStore
) -> None:
    row = Invocation.objects.get(function=victim)
    receipt = "0" * 64  # Only the workers know the real receipt.
    what = [f"{start}-1-{kind}" for start in (f"{row.pk}-1", receipt) for kind in KINDS]

    async def use_up(client: Client) -> None:
        for one in what:
            subject = result_subject("default", own.pk)
            await client.request(subject, b"{}", headers={MSG_ID: one}, timeout=2)

    assert Thief(queue_server, own).do(use_up) == []
    Worker(queue, victim).serve_one()
    store_all(store, queue)

    row.refresh_from_db()
    assert (row.state, bytes(row.result_body or b"")) == ("Succeeded", b"hello")


def messages(queue: Queue, stream: str) -> int:
    """Return the number of messages in the stream."""
    state: Any = queue.call(lambda js: js.stream_info(stream)).state
    return int(state.messages)
