"""A caller of the API, the fake cluster and the broker."""

import pytest

from tests.fakes.api import Api
from tests.fakes.installed import broker, catalogue, cluster

__all__ = ["api", "broker", "catalogue", "cluster"]


@pytest.fixture
def api() -> Api:
    return Api()
