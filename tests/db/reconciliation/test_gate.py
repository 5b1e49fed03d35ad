"""One gate for an unavailable cluster: one failure closes it, one successful probe opens it."""

import pytest
from django.db.models.functions import Now
from pytest_django import Settings

from gpuplatform.kube.errors import ClusterError, ClusterForbidden, ClusterUnavailable
from gpuplatform.reconciliation import gate
from gpuplatform.reconciliation.gate import cluster_state
from gpuplatform.reconciliation.models import ClusterState
from tests.fakes.cluster import FakeCluster

pytestmark = pytest.mark.django_db

AWAY = ClusterUnavailable("connection refused")


def time_is_over() -> None:
    ClusterState.objects.update(closed_until=Now())


def test_the_gate_is_open_at_first(cluster: FakeCluster) -> None:
    assert not gate.is_closed()
    assert gate.probe()


def test_a_closed_gate_is_not_probed_early(cluster: FakeCluster) -> None:
    gate.close(AWAY)
    asked: list[str] = []
    cluster.on_call = lambda verb, kind: asked.append(verb)

    assert not gate.probe()

    assert asked == []
    assert gate.is_closed()


def test_a_cluster_that_answers_again_opens_the_gate(cluster: FakeCluster) -> None:
    gate.close(AWAY)
    time_is_over()

    assert gate.probe()

    state = cluster_state()
    assert (state.failures, state.closed_until, state.error) == (0, None, "")


def test_repeated_failures_close_the_gate_for_longer(cluster: FakeCluster) -> None:
    gate.close(AWAY)
    cluster.fail("version", None, AWAY, times=20)
    for _ in range(12):
        time_is_over()
        assert not gate.probe()

    state = cluster_state()
    assert state.failures == 13
    assert state.closed_until is not None
    wait = (state.closed_until - ClusterState.objects.values_list(Now(), flat=True)[0]).seconds
    assert 20 <= wait <= 36


@pytest.mark.parametrize(
    ("error", "is_unreachable"),
    [
        (AWAY, True),
        (ClusterUnavailable("too many requests", status=429), False),
        (ClusterUnavailable("internal error", status=500), False),
        (ClusterForbidden("no", status=403), False),
    ],
)
def test_only_a_missing_response_is_an_outage(error: ClusterError, is_unreachable: bool) -> None:
    assert gate.is_unreachable(error) == is_unreachable


def test_a_pending_recovery_keeps_the_gate_closed(cluster: FakeCluster) -> None:
    ClusterState.objects.filter(id=cluster_state().id).update(recovery_reason="another database")

    assert gate.is_closed()
    assert not gate.probe()


def test_without_a_cluster_the_gate_stays_closed(settings: Settings) -> None:
    settings.KUBE_MODE = "off"
    gate.close(AWAY)
    time_is_over()

    assert not gate.probe()
