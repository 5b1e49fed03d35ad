"""A queue of the test's own, and the relay and the store that work on it."""

import pytest

from serverless.queue.gateway import Queue
from serverless.relay import Relay
from serverless.results import DeadLetters, ResultStore
from tests.fakes.installed import broker, cluster
from tests.fakes.queue_server import queue, queue_server

__all__ = ["broker", "cluster", "queue", "queue_server"]

WAIT_SECONDS = 0.3


@pytest.fixture
def relay(queue: Queue, cluster: object) -> Relay:
    """A relay; `publish` does one batch."""
    return Relay(queue)


@pytest.fixture
def store(queue: Queue) -> ResultStore:
    """A result store; `step` stores what there is."""
    return ResultStore(queue, wait_seconds=WAIT_SECONDS)


@pytest.fixture
def dead_letters(queue: Queue) -> DeadLetters:
    """What decides about messages that nobody gets any more."""
    return DeadLetters(queue, wait_seconds=WAIT_SECONDS)
