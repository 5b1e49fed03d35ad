"""NATS from its wheel: restart, kill and login."""

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nats.errors
import pytest
from nats.aio.client import Client

from gpuplatform.dev.embedded.nats import Nats
from gpuplatform.dev.embedded.ports import free_port
from gpuplatform.dev.embedded.processes import wait_until
from gpuplatform.nats.keys import KeyKind, KeyPair
from serverless.queue.credentials import platform_credentials
from serverless.queue.gateway import Queue
from serverless.queue.messages import InvocationMessage
from serverless.queue.values import OutgoingInvocation, PublishResult, PublishStatus


@contextmanager
def running(server: Nats) -> Iterator[subprocess.Popen[bytes]]:
    """Run the server."""
    process = subprocess.Popen(server.command().argv)
    try:
        assert wait_until(server.is_ready, 10)
        yield process
    finally:
        process.kill()
        process.wait()


def message(key: int, payload: bytes = b"x", **headers: str) -> OutgoingInvocation:
    """Return an invocation."""
    invocation = InvocationMessage(
        key=key,
        publication=1,
        invocation_id="i",
        receipt="r",
        content_type="text/plain",
        timeout_seconds=5,
        payload=payload,
        headers=headers,
    )
    return OutgoingInvocation("a", 1, invocation)


def stored(sequence: int) -> PublishResult:
    """Return the result of a successful publication."""
    return PublishResult(PublishStatus.STORED, sequence)


def test_messages_and_ids_survive_kill_and_restart(tmp_path: Path) -> None:
    first = Nats.prepare(tmp_path / "a person's nats", free_port())
    with running(first):
        queue = Queue(first.url, first.account)
        queue.ensure()
        assert queue.publish([message(1), message(2)]) == [
            stored(1),
            stored(2),
        ]
        queue.close()

    again = Nats.prepare(tmp_path / "a person's nats", free_port())
    with running(again):
        queue = Queue(again.url, again.account)
        queue.ensure()
        assert queue.publish([message(2), message(3)]) == [
            stored(2),
            stored(3),
        ]
        queue.close()


def test_largest_payload_with_largest_headers_is_stored(tmp_path: Path) -> None:
    server = Nats.prepare(tmp_path, free_port())
    with running(server):
        queue = Queue(server.url, server.account)
        queue.ensure()
        headers = {f"X-{number}": "v" * 500 for number in range(64)}
        large = message(1, b"x" * 512 * 1024, **headers)
        assert queue.publish([large]) == [stored(1)]
        found = queue.message(1)
        queue.close()

    assert found is not None
    assert found.body == large.message.payload


def test_login_requires_account(tmp_path: Path) -> None:
    server = Nats.prepare(tmp_path, free_port())
    other = platform_credentials(KeyPair.generate(KeyKind.ACCOUNT)).callbacks()

    async def log_in(**credentials: object) -> None:
        async def quiet(_: Exception) -> None:
            return

        client = Client()
        try:
            await client.connect(
                server.url,
                error_cb=quiet,
                allow_reconnect=False,
                **credentials,  # type: ignore[arg-type]  # callbacks by name, or none
            )
        finally:
            await client.close()

    with running(server):
        for credentials in ({}, other):
            with pytest.raises((nats.errors.Error, OSError)):
                asyncio.run(log_in(**credentials))


def test_files_with_secrets_are_private(tmp_path: Path) -> None:
    Nats.prepare(tmp_path, free_port())

    for name in ("account-seed", "nats.conf"):
        assert (tmp_path / name).stat().st_mode & 0o077 == 0
