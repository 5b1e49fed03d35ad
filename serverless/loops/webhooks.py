"""Sends the webhooks of ended invocations, and retries them after failures.

A webhook is sent outside of a transaction, and its outcome is recorded afterwards. If the process
is killed in between, another one sends the webhook again with the same delivery id. Several of
these loops can run.
"""

import asyncio
import logging
import time
from collections import Counter
from typing import Final

from django.conf import settings
from django.db import DatabaseError, connection

from gpuplatform import clock
from serverless.core.webhooks import ID_HEADER, SIGNATURE_HEADER, TIME_HEADER, signature
from serverless.documents import webhook_body
from serverless.loops.webhook_client import Request, WebhookClient
from serverless.models import Invocation
from serverless.services.webhook_secrets import signing_keys
from serverless.services.webhooks import Attempt, webhook_record, webhooks_claim
from serverless.webhook_phases import WebhookFailure

logger = logging.getLogger(__name__)

MAX_SENDING: Final = 32
"""Maximum number of webhooks that a process sends concurrently."""

MAX_OF_FUNCTION: Final = 8
"""Maximum number of webhooks of one function that a process sends concurrently."""

POLL_SECONDS: Final = 0.5
"""Interval in seconds at which the outbox is read."""


class Webhooks:
    """One sender, whose `step` is called repeatedly by one thread."""

    def __init__(self) -> None:
        """Prepare the loop; `step` does the work."""
        self._runner = asyncio.Runner()
        self._client: WebhookClient | None = None
        self._sending: dict[asyncio.Task[Attempt], Invocation] = {}

    def step(self) -> None:
        """Send the due webhooks, and record the attempts that ended within `POLL_SECONDS`.

        Raises:
            DatabaseError: If the database is unavailable. The next step continues.
        """
        free = MAX_SENDING - len(self._sending)
        rows = self._claim(free) if free else []
        requests = [(row, request) for row in rows if (request := _prepared(row))]
        self._runner.run(self._send(requests))
        self._record()

    def finish(self) -> None:
        """Wait for the attempts in progress, and record them.

        Attempts that cannot be recorded are repeated by another process.
        """
        try:
            while self._sending:
                self._runner.run(self._wait())
                self._record()
        except DatabaseError as error:
            logger.warning("%d attempts are not recorded: %s", len(self._sending), error)
        finally:
            connection.close()
        client, self._client = self._client, None
        if client is not None:
            self._runner.run(client.close())
        self._runner.close()

    def _claim(self, limit: int) -> list[Invocation]:
        sending = self._sending.values()
        return webhooks_claim(
            limit,
            busy=Counter(row.function_id for row in sending),
            per_function=MAX_OF_FUNCTION,
            busy_tenants={row.tenant_id for row in sending},
        )

    async def _send(self, requests: list[tuple[Invocation, Request]]) -> None:
        if self._client is None:
            self._client = WebhookClient(settings.WEBHOOK_NETWORKS, most=MAX_SENDING)
        for row, request in requests:
            self._sending[asyncio.create_task(self._client.send(request))] = row
        await self._wait()

    async def _wait(self) -> None:
        if self._sending:
            await asyncio.wait(
                self._sending, timeout=POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
        else:
            await asyncio.sleep(POLL_SECONDS)

    def _record(self) -> None:
        for task in [task for task in self._sending if task.done()]:
            error = task.exception()
            attempt = task.result() if error is None else _unexpected(error)
            webhook_record(self._sending[task], attempt)
            del self._sending[task]


def _prepared(row: Invocation) -> Request | None:
    """Return the request of a claimed webhook, or `None` after a recorded error."""
    try:
        return _request(row)
    except DatabaseError:
        raise
    except Exception as error:  # noqa: BLE001 - one invocation must not delay the webhooks of others
        webhook_record(row, _unexpected(error))
        return None


def _unexpected(error: BaseException) -> Attempt:
    """Return the attempt that ended with a bug of the platform, and log the error."""
    logger.error("an attempt to send a webhook failed", exc_info=error)
    return Attempt(clock.now(), 0.0, failure=WebhookFailure.INTERNAL_ERROR)


def _request(row: Invocation) -> Request:
    """Return the signed request of a claimed webhook."""
    body, delivery, seconds = webhook_body(row), str(row.webhook_id), int(time.time())
    return Request(
        url=row.on_done_url,
        headers={
            "Content-Type": "application/json",
            ID_HEADER: delivery,
            TIME_HEADER: str(seconds),
            SIGNATURE_HEADER: signature(signing_keys(row.function), delivery, seconds, body),
        },
        body=body,
    )
