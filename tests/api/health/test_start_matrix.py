"""Health in each mode with each cluster, and its duration. Starts are in `tests/commands`."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pytest_django import Settings

from gpuplatform.kube.modes import close_clusters
from tests.fakes.api import Api
from tests.fakes.installed import Broker
from tests.fakes.odd_clusters import cluster_in

pytestmark = [pytest.mark.django_db, pytest.mark.long]

HEALTH_SECONDS = 5.0
"""2 s, and a margin for slow machines."""
MODES = ("auto", "off", "required", "simulated")
THERE = ""
OFF = ""
NO_CLUSTER = "runs without a cluster (KUBE_MODE=auto)"
NEEDS_ONE = "KUBE_MODE=required needs a cluster"
CANNOT_BE_USED = "kubeconfig"


@dataclass(frozen=True, slots=True)
class Case:
    """Part of the error of health for a cluster, in each mode that uses one."""

    auto: str
    required: str
    simulated: str

    @classmethod
    def same(cls, words: str) -> "Case":
        return cls(words, words, words)


CASES = {
    "there": Case.same(THERE),
    "away": Case.same("connection refused"),
    "slow": Case.same("response timed out"),
    "refusing with 401": Case.same("forbids the request: Unauthorized"),
    "refusing with 403": Case.same("forbids the request: Forbidden"),
    "with a wrong TLS": Case.same("the certificate cannot be verified"),
    "with a broken kubeconfig": Case.same(CANNOT_BE_USED),
    "nowhere": Case(NO_CLUSTER, NEEDS_ONE, CANNOT_BE_USED),
}


@pytest.fixture
def kubeconfig(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The kubeconfig of the case's cluster; empty without a cluster."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with cluster_in(request.param, tmp_path) as path:
        close_clusters()
        yield path
        close_clusters()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("kubeconfig", "state"), [(s, s) for s in CASES], indirect=["kubeconfig"])
def test_health_reports_each_mode_with_each_cluster(
    api: Api, broker: Broker, settings: Settings, kubeconfig: str, state: str, mode: str
) -> None:
    settings.KUBE_MODE, settings.KUBECONFIG, settings.GPUPLATFORM_DEV = mode, kubeconfig, True
    words = OFF if mode == "off" else getattr(CASES[state], mode)
    begun_at = time.monotonic()

    answer = api.get("/api/v1/health")

    took = time.monotonic() - begun_at
    kube_error = answer.data["kubeError"]
    assert answer.status == 200
    assert took < HEALTH_SECONDS
    assert answer.data["kubernetesConnected"] is (mode != "off" and state == "there")
    assert words in kube_error
    assert bool(kube_error) is bool(words)
    assert "Traceback" not in kube_error
    assert len(kube_error) < 400
