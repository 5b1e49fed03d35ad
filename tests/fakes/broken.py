"""A broker that is not reachable."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.conf import settings

from gpuplatform import queueing
from gpuplatform.celery import app
from gpuplatform.dev.embedded.ports import free_port


@contextmanager
def broker_away(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Configure the Celery application and the health check with an unused port."""
    url = f"redis://127.0.0.1:{free_port()}/0"
    with monkeypatch.context() as patch:
        # First, since Celery falls back to the settings.
        patch.setitem(app.conf, "broker_url", url)
        patch.setattr(settings, "CELERY_BROKER_URL", url)
        patch.setattr(queueing._Pause, "until", 0.0)
        patch.setattr(app, "_pool", None)
        patch.setattr(app.amqp, "_producer_pool", None)
        yield
