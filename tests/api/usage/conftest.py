"""A caller of the API."""

import pytest

from tests.fakes.api import Api


@pytest.fixture
def api() -> Api:
    return Api()
