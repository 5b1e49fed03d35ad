"""A worker on a separate queue."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from serverless.queue.gateway import Queue
from tests.fakes.queue_server import QueueServer, queue, queue_server
from tests.sidecar.rig import Rig

__all__ = ["queue", "queue_server"]


@pytest.fixture
def rig(tmp_path: Path, queue_server: QueueServer, queue: Queue) -> Iterator[Rig]:
    """A queue with a function's consumer, without a running worker."""
    made = Rig(tmp_path, queue_server, queue)
    yield made
    made.stop()
