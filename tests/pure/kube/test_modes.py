import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gpuplatform.errors import OperatorUnavailable
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.errors import ClusterUnavailable
from gpuplatform.kube.modes import (
    KubeMode,
    check_configuration,
    close_clusters,
    get_cluster,
    get_watch_cluster,
    open_cluster,
)
from tests.fakes.scripted_server import Exchange, scripted, unused_address


def says_version(exchange: Exchange) -> None:
    exchange.json({"gitVersion": "v9"})


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    yield
    close_clusters()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "kubeconfig"


def write(file: Path, url: str) -> str:
    file.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": url}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    return str(file)


def connect(mode: KubeMode, kubeconfig: str = "") -> Cluster | None:
    """Return a cluster that has responded."""
    cluster = open_cluster(mode, kubeconfig)
    if cluster is not None:
        cluster.version()
    return cluster


@pytest.mark.parametrize("mode", [KubeMode.OFF, KubeMode.AUTO])
def test_no_cluster_is_allowed_in_some_modes(mode: KubeMode) -> None:
    assert connect(mode) is None


def test_required_cluster_without_configuration_is_an_error() -> None:
    with pytest.raises(ClusterUnavailable, match="Set KUBECONFIG"):
        connect(KubeMode.REQUIRED)


@pytest.mark.parametrize("mode", [KubeMode.REQUIRED, KubeMode.AUTO, KubeMode.SIMULATED])
def test_kubeconfig_names_the_cluster_and_its_token(mode: KubeMode, file: Path) -> None:
    with scripted(says_version) as server:
        cluster = connect(mode, write(file, server.url))
        assert cluster is not None
        cluster.close()

    assert server.requests[0].headers["Authorization"] == "Bearer t"


def test_cluster_that_does_not_answer_is_reported_immediately(file: Path) -> None:
    with pytest.raises(ClusterUnavailable, match="connection refused"):
        connect(KubeMode.REQUIRED, write(file, unused_address()))


def test_opening_sends_no_request(file: Path) -> None:
    assert open_cluster(KubeMode.REQUIRED, write(file, unused_address())) is not None


@pytest.mark.parametrize(
    "text",
    ["", "]not: yaml", "[]", "clusters: 5", "current-context: x"],
    ids=["empty", "no YAML", "a list", "wrong types", "half"],
)
@pytest.mark.parametrize("mode", [KubeMode.AUTO, KubeMode.REQUIRED, KubeMode.SIMULATED])
def test_kubeconfig_that_cannot_be_used_is_named(mode: KubeMode, text: str, file: Path) -> None:
    file.write_text(text)

    with pytest.raises(ClusterUnavailable, match="kubeconfig"):
        connect(mode, str(file))


def test_missing_kubeconfig_is_named(file: Path) -> None:
    with pytest.raises(ClusterUnavailable, match="kubeconfig"):
        connect(KubeMode.REQUIRED, str(file))


def test_simulated_cluster_is_on_this_machine_only(file: Path) -> None:
    with pytest.raises(ClusterUnavailable, match="on this machine only"):
        connect(KubeMode.SIMULATED, write(file, "https://cluster.example.com"))


def test_pod_without_its_service_account_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")

    with pytest.raises(ClusterUnavailable, match="service account"):
        connect(KubeMode.AUTO)


def test_platform_without_a_cluster_is_reported(settings: object) -> None:
    vars_of(settings, KUBE_MODE="off", KUBECONFIG="", GPUPLATFORM_DEV=True)

    with pytest.raises(OperatorUnavailable, match="KUBE_MODE=off"):
        get_cluster()


def test_simulated_cluster_is_for_development_only(settings: object, file: Path) -> None:
    kubeconfig = write(file, "http://127.0.0.1:1")
    vars_of(settings, KUBE_MODE="simulated", KUBECONFIG=kubeconfig, GPUPLATFORM_DEV=False)

    with pytest.raises(OperatorUnavailable, match="only for development"):
        get_cluster()


def test_process_has_one_client_for_requests_and_one_for_watches(
    settings: object, file: Path
) -> None:
    kubeconfig = write(file, "http://127.0.0.1:1")
    vars_of(settings, KUBE_MODE="required", KUBECONFIG=kubeconfig, GPUPLATFORM_DEV=False)

    assert get_cluster() is get_cluster()
    assert get_watch_cluster() is get_watch_cluster()
    assert get_cluster() is not get_watch_cluster()


@pytest.mark.parametrize("mode", [KubeMode.OFF, KubeMode.AUTO, KubeMode.SIMULATED])
def test_only_a_required_cluster_must_be_configured_at_the_start(
    settings: object, file: Path, mode: KubeMode
) -> None:
    vars_of(settings, KUBE_MODE=mode.value, KUBECONFIG=str(file), GPUPLATFORM_DEV=True)
    check_configuration()

    vars_of(settings, KUBE_MODE="required")
    with pytest.raises(ClusterUnavailable, match="cannot be used"):
        check_configuration()


def test_a_required_cluster_that_does_not_answer_delays_no_start(
    settings: object, file: Path
) -> None:
    kubeconfig = write(file, unused_address())
    vars_of(settings, KUBE_MODE="required", KUBECONFIG=kubeconfig, GPUPLATFORM_DEV=False)

    check_configuration()


FORKING = """
import os, sys
import django.conf
django.conf.settings.configure(KUBE_MODE="required", KUBECONFIG=sys.argv[1], GPUPLATFORM_DEV=True)
from gpuplatform.kube.modes import get_cluster
mine = get_cluster()
pid = os.fork()
if pid == 0:
    os._exit(0 if get_cluster() is not mine and get_cluster() is get_cluster() else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) or get_cluster() is not mine)
"""


def test_forked_process_gets_its_own_client(file: Path) -> None:
    root = Path(__file__).parents[3]

    done = subprocess.run(
        [sys.executable, "-c", FORKING, write(file, "http://127.0.0.1:1")],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        check=False,
        timeout=60,
    )

    assert done.returncode == 0


def vars_of(settings: object, **values: object) -> None:
    for name, value in values.items():
        setattr(settings, name, value)
