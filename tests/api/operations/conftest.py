"""A caller of the API, the fake cluster and the broker."""

import pytest

from tests.fakes.api import Api
from tests.fakes.installed import broker as broker
from tests.fakes.installed import cluster as cluster


@pytest.fixture
def api() -> Api:
    return Api()
