"""The platform of GPU units on an in-memory cluster."""

import threading

import pytest
from pytest_django import Settings

from gpuplatform.kube import modes
from gpuplatform.process_local import ProcessLocal
from gpuplatform.reconciliation import epoch, event_writer
from tests.fakes.unit_world import ManagedCluster, UnitWorld


@pytest.fixture
def world(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> UnitWorld:
    """The platform; all threads of this process share its cluster."""
    settings.KUBE_MODE = "required"
    cluster = ManagedCluster()
    monkeypatch.setattr(modes, "_REQUESTS", ProcessLocal(lambda: cluster))
    monkeypatch.setattr(epoch, "_COMPARED", ProcessLocal(threading.Event))
    # A background thread writes Events, and they are best effort: these tests count the
    # writes of workers, and compare the remaining objects.
    monkeypatch.setattr(event_writer, "submit", lambda *_: None)
    return UnitWorld(cluster)
