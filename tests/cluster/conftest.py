"""The suite's servers, chosen by `--server simulator|controlplane|all`, and its table of rules."""

import itertools
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import NAMESPACE, ResourceKind
from gpuplatform.kube.modes import KubeMode, open_cluster
from tests.cluster.servers import Servers
from tests.cluster.widgets import install
from tests.cluster.world import Http, World

SERVERS = ("simulator", "controlplane")
_NUMBERS = itertools.count(1)
_RESULTS = pytest.StashKey[dict[str, dict[str, str]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--server",
        choices=[*SERVERS, "all"],
        default="simulator",
        help="What the cluster suite runs on (default: simulator).",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "real_only(reason): the simulator does not do this, and says so by 501 or docs"
    )
    config.stash[_RESULTS] = {}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "server" not in metafunc.fixturenames:
        return
    chosen = metafunc.config.getoption("--server", "simulator")
    servers = SERVERS if chosen == "all" else (chosen,)
    metafunc.parametrize("server", servers, indirect=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    callspec = getattr(item, "callspec", None)
    if callspec is not None and "server" in callspec.params:
        rules = item.config.stash[_RESULTS].setdefault(_rule(item), {})
        server = callspec.params["server"]
        if report.when == "call" or report.outcome != "passed":
            rules[server] = _word(report, rules.get(server))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    results = terminalreporter.config.stash[_RESULTS]
    if not results:
        return
    servers = [name for name in SERVERS if any(name in rules for rules in results.values())]
    terminalreporter.section("rules of a Kubernetes API server")
    for rule in sorted(results):
        words = "  ".join(f"{results[rule].get(name, ''):<6}" for name in servers)
        terminalreporter.write_line(f"{words}  {rule}")
    terminalreporter.write_line(f"{len(results)} rules on {', '.join(servers)}")


def _rule(item: pytest.Item) -> str:
    name = getattr(item, "originalname", None) or item.name
    words = name.removeprefix("test_").replace("_", " ")
    case = item.callspec.id.partition("-")[2] if "-" in item.callspec.id else ""  # type: ignore[attr-defined]
    return f"{words} [{case}]" if case else words


def _word(report: pytest.TestReport, before: str | None) -> str:
    if report.outcome == "failed" or before == "FAILED":
        return "FAILED"
    return "-" if report.outcome == "skipped" else "ok"


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """The running servers."""
    running = Servers()
    yield running
    running.stop()


@pytest.fixture
def server(request: pytest.FixtureRequest) -> str:
    """The name of the server under test."""
    marker = request.node.get_closest_marker("real_only")
    name = str(request.param)
    if marker is not None and name == "simulator":
        pytest.skip(marker.kwargs["reason"])
    return name


@pytest.fixture
def kubeconfig(server: str, servers: Servers) -> Path:
    """The kubeconfig of the server under test; it has simulated nodes with GPUs."""
    return servers.kubeconfig(server)


@pytest.fixture
def cluster(kubeconfig: Path) -> Iterator[Cluster]:
    """The platform's own client of the server under test."""
    client = open_cluster(KubeMode.REQUIRED, str(kubeconfig))
    assert client is not None
    yield client
    client.close()


@pytest.fixture
def world(server: str, kubeconfig: Path, cluster: Cluster) -> Iterator[World]:
    """The server under test with a namespace for this test alone."""
    http = Http(kubeconfig)
    name = f"rule-{os.getpid()}-{next(_NUMBERS)}"
    cluster.create(
        NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    )
    yield World(server, kubeconfig, cluster, http, name)
    cluster.delete(NAMESPACE, name)
    http.close()


@pytest.fixture
def widgets(world: World) -> ResourceKind:
    """A custom kind with a schema that refuses, prunes and defaults."""
    return install(world)
