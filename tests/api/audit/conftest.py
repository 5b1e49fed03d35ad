"""A caller in production, the fake cluster and the broker."""

import pytest
from pytest_django import Settings

from gpuplatform.audit.services import anonymous, values
from tests.fakes.installed import broker, catalogue, cluster

__all__ = ["broker", "catalogue", "cluster"]


@pytest.fixture(autouse=True)
def _guarded(settings: Settings) -> None:
    settings.GPUPLATFORM_DEV = False
    settings.ALLOWED_HOSTS = ["testserver"]
    anonymous._LIMITER.reset()
    values._LIMITER.reset()
