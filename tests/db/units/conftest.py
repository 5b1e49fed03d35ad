"""A platform of GPU units on a cluster of dicts."""

import threading

import pytest
from pytest_django import Settings

from gpuplatform.kube import modes
from gpuplatform.process_local import ProcessLocal
from gpuplatform.reconciliation import epoch, event_writer
from tests.fakes.unit_world import ManagedCluster, UnitWorld


@pytest.fixture
def world(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> UnitWorld:
    """The platform; its cluster is that of every thread of this process."""
    settings.KUBE_MODE = "required"
    cluster = ManagedCluster()
    monkeypatch.setattr(modes, "_REQUESTS", ProcessLocal(lambda: cluster))
    monkeypatch.setattr(epoch, "_COMPARED", ProcessLocal(threading.Event))
    # Events are written by another thread and may be lost: these tests count the
    # writes of workers, and compare what is left.
    monkeypatch.setattr(event_writer, "submit", lambda *_: None)
    return UnitWorld(cluster)
