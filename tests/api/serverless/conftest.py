"""A caller of the API, the fake cluster and the broker."""

import pytest

from tests.fakes.api import Api
from tests.fakes.installed import broker, cluster

__all__ = ["api", "broker", "cluster"]


@pytest.fixture
def api() -> Api:
    return Api()
