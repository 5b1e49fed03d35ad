"""A client of the toy API that receives a 500 response instead of the exception."""

import pytest
from django.test import Client
from pytest_django import Settings

from gpuplatform.tenancy import permissions


@pytest.fixture(autouse=True)
def _toy_urls(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.api.kernel.toy import TOY_PERMISSIONS  # noqa: PLC0415 - needs the apps

    settings.ROOT_URLCONF = "tests.api.kernel.toy"
    monkeypatch.setattr(permissions, "PERMISSIONS", {**permissions.PERMISSIONS, **TOY_PERMISSIONS})


@pytest.fixture
def api() -> Client:
    return Client(raise_request_exception=False)
