"""A separate queue, with relay, result store and dead letters."""

import pytest

from serverless.loops.dead_letters import DeadLetters
from serverless.loops.relay import Relay
from serverless.loops.result_store import ResultStore
from serverless.queue.gateway import Queue
from tests.fakes.installed import broker, cluster
from tests.fakes.queue_server import queue, queue_server

__all__ = ["broker", "cluster", "queue", "queue_server"]

WAIT_SECONDS = 0.3


@pytest.fixture
def relay(queue: Queue, cluster: object) -> Relay:
    """A relay; `publish` publishes one batch."""
    return Relay(queue)


@pytest.fixture
def store(queue: Queue) -> ResultStore:
    """A result store; `step` stores the available reports."""
    return ResultStore(queue, wait_seconds=WAIT_SECONDS)


@pytest.fixture
def dead_letters(queue: Queue) -> DeadLetters:
    """The handler of advisories."""
    return DeadLetters(queue, wait_seconds=WAIT_SECONDS)
