"""A separate queue, with relay, result store and dead letters."""

import pytest

from serverless.loops import dead_letters as dead_letter_loop
from serverless.loops import result_store
from serverless.loops.dead_letters import DeadLetters
from serverless.loops.relay import Relay
from serverless.loops.result_store import ResultStore
from serverless.queue.gateway import Queue
from tests.fakes.installed import broker, catalogue, cluster
from tests.fakes.queue_server import queue, queue_server

__all__ = ["broker", "catalogue", "cluster", "queue", "queue_server"]


@pytest.fixture
def relay(queue: Queue, cluster: object) -> Relay:
    """A relay; `publish` publishes one batch."""
    return Relay(queue)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the time that a step waits for a message."""
    for module in (dead_letter_loop, result_store):
        monkeypatch.setattr(module, "WAIT_SECONDS", 0.3)


@pytest.fixture
def store(queue: Queue) -> ResultStore:
    """A result store; `step` stores the available reports."""
    return ResultStore(queue)


@pytest.fixture
def dead_letters(queue: Queue) -> DeadLetters:
    """The handler of advisories."""
    return DeadLetters(queue)
