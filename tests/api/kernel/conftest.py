"""A client of the toy API that receives a 500 response instead of the exception."""

import pytest
from django.test import Client
from pytest_django import Settings


@pytest.fixture(autouse=True)
def _toy_urls(settings: Settings) -> None:
    settings.ROOT_URLCONF = "tests.api.kernel.toy"


@pytest.fixture
def api() -> Client:
    return Client(raise_request_exception=False)
