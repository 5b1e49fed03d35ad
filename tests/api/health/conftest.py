"""A caller of the API, the fake cluster and the broker."""

import pytest

from tests.fakes.api import Api
from tests.fakes.installed import broker, catalogue, cluster
from tests.fakes.queue_server import queue_server

__all__ = ["api", "broker", "catalogue", "cluster", "queue_server"]


@pytest.fixture
def api() -> Api:
    return Api()
