"""Fixtures that install the fake cluster and an empty broker in the platform."""

import threading
from collections.abc import Iterator

import pytest
import redis
from pytest_django import Settings

from gpuplatform import queueing
from gpuplatform.kube import modes
from gpuplatform.process_local import ProcessLocal, ProcessThreads
from gpuplatform.queueing import Queue, keys_of
from gpuplatform.reconciliation import epoch
from inventory.models import GpuSpec
from tests.factories.unit_rows import catalogued
from tests.fakes.cluster import FakeCluster


@pytest.fixture
def cluster(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """The cluster of every thread of this process."""
    settings.KUBE_MODE = "required"
    fake = FakeCluster()
    monkeypatch.setattr(modes, "_REQUESTS", ProcessLocal(lambda: fake))
    monkeypatch.setattr(epoch, "_COMPARED", ProcessLocal(threading.Event))
    return fake


@pytest.fixture
def catalogue(db: None) -> GpuSpec:
    """The GPU spec that the requests of tests name."""
    return catalogued(memory="64Gi")


class Broker:
    """The messages in the queues."""

    def __init__(self, client: "redis.Redis") -> None:
        self._client = client

    def hints(self, queue: Queue) -> int:
        """Return the number of messages in a queue."""
        return sum(int(self._client.llen(key)) for key in keys_of(queue))

    def lose_everything(self) -> None:
        """Delete all messages."""
        self._client.flushdb()


@pytest.fixture
def broker(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    """The real broker, empty."""
    monkeypatch.setattr(queueing._Pause, "until", 0.0)
    monkeypatch.setattr(queueing, "_SENDER", ProcessThreads(1, "hints"))
    client = redis.Redis.from_url(settings.CELERY_BROKER_URL)
    client.flushdb()
    yield Broker(client)
    client.close()
