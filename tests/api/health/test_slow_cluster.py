"""A cluster that does not respond delays neither health nor probes."""

import threading
import time

import pytest

from gpuplatform.kube.kinds import ResourceKind
from tests.fakes.api import Api
from tests.fakes.cluster import FakeCluster
from tests.fakes.installed import Broker

LONG_SECONDS = 60.0
SOON_SECONDS = 5.0
"""2 s, and a margin for slow machines."""


@pytest.mark.django_db
def test_health_answers_quickly_while_the_cluster_hangs(
    api: Api, cluster: FakeCluster, broker: Broker
) -> None:
    released = threading.Event()

    def hang(_verb: str, _kind: ResourceKind | None) -> None:
        released.wait(LONG_SECONDS)

    cluster.on_call = hang
    begun_at = time.monotonic()
    try:
        answer, probe = api.get("/api/v1/health"), api.get("/livez")
        took = time.monotonic() - begun_at
    finally:
        released.set()

    assert (answer.status, probe.status) == (200, 200)
    assert took < SOON_SECONDS
    assert (answer.data["ready"], answer.data["kubernetesConnected"]) == (False, False)
    assert answer.data["kubeError"]
