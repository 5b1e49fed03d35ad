"""A platform of GPU units on a cluster of dicts."""

import pytest
from pytest_django import Settings

from gpuplatform.kube import modes
from gpuplatform.reconciliation import epoch
from tests.fakes.unit_world import ManagedCluster, UnitWorld


@pytest.fixture
def world(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> UnitWorld:
    """The platform; its cluster is that of every thread of this process."""
    settings.KUBE_MODE = "required"
    cluster = ManagedCluster()
    monkeypatch.setitem(modes._PROCESS.clusters, "requests", cluster)
    monkeypatch.setattr(epoch._Compared, "pid", 0)
    return UnitWorld(cluster)
