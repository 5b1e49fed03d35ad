"""A worker's pod on simulated nodes, and a separate queue."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuplatform.kube.kinds import SECRET
from serverless.queue.credentials import worker_credentials
from serverless.queue.gateway import Queue
from serverless.queue.names import CREDENTIALS_KEY
from tests.cluster.serverless.pods import SECRET_NAME
from tests.cluster.world import World
from tests.fakes.queue_server import QueueServer, queue, queue_server
from tests.sidecar.rig import FUNCTION, TENANT, Rig

__all__ = ["queue", "queue_server"]


@pytest.fixture
def rig(tmp_path: Path, queue_server: QueueServer, queue: Queue) -> Iterator[Rig]:
    """A queue with a function's consumer."""
    made = Rig(tmp_path, queue_server, queue)
    yield made
    made.stop()


@pytest.fixture
def secret(world: World, queue_server: QueueServer) -> None:
    """The Secret with the credentials of the function."""
    text = worker_credentials(queue_server.account, TENANT, FUNCTION).file()
    data = {CREDENTIALS_KEY: base64.b64encode(text.encode()).decode()}
    world.create(SECRET, {"metadata": {"name": SECRET_NAME}, "data": data})
