"""The servers of the suite, selected by `--server`, and the table of rules."""

import itertools
import os
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest
from django.core.management import call_command
from django.db import connection
from pytest_django.fixtures import Settings

from gpuplatform import clock
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import NAMESPACE, ResourceKind
from gpuplatform.kube.modes import close_clusters, get_cluster, get_watch_cluster
from gpuplatform.process_local import ProcessLocal
from gpuplatform.processes.controller import Controller
from gpuplatform.reconciliation import epoch
from tests.cluster.control import Control
from tests.cluster.gadgets import GADGET
from tests.cluster.gadgets import definition as gadgets_definition
from tests.cluster.pools import Pools
from tests.cluster.servers import Servers
from tests.cluster.tenant_units import Units
from tests.cluster.widgets import WIDGET, definition, install
from tests.cluster.world import Http, World
from tests.fakes.fault_proxy import FaultProxy, Upstream

SERVERS = ("simulator", "controlplane")
_NUMBERS = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--server",
        choices=[*SERVERS, "all"],
        default="simulator",
        help="Servers of the cluster suite (default: simulator).",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "real_only(reason): a feature that is not simulated")
    config.pluginmanager.register(RuleTable(), "rule-table")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "server" not in metafunc.fixturenames:
        return
    chosen = metafunc.config.getoption("--server", "simulator")
    servers = SERVERS if chosen == "all" else (chosen,)
    metafunc.parametrize("server", servers, indirect=True)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Set the properties rule and server of each test; reports transfer them between processes."""
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is not None and "server" in callspec.params:
            case = callspec.id.removeprefix(callspec.params["server"]).removeprefix("-")
            name = getattr(item, "originalname", item.name).removeprefix("test_")
            rule = name.replace("_", " ") + (f" [{case}]" if case else "")
            item.user_properties.append(("rule", [rule, callspec.params["server"]]))


class RuleTable:
    """Collects the result of each rule on each server, and prints a table at the end.

    The table has all rules of selected servers; by default only failed ones.
    """

    def __init__(self) -> None:
        self._results: dict[str, dict[str, str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found = [value for name, value in report.user_properties if name == "rule"]
        if not found:
            return
        rule, server = cast("list[str]", found[0])
        results = self._results.setdefault(rule, {})
        if report.failed:
            results[server] = "FAILED"
        elif report.skipped:
            results[server] = "-"
        elif report.when == "call":
            results.setdefault(server, "ok")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        servers = [name for name in SERVERS if any(name in row for row in self._results.values())]
        if not servers:
            return
        terminalreporter.section("rules of a Kubernetes API server")
        for rule in sorted(self._results):
            row = self._results[rule]
            if servers != ["simulator"] or row["simulator"] == "FAILED":
                results = "".join(f"{row.get(name, ''):<14}" for name in servers)
                terminalreporter.write_line(results + rule)
        terminalreporter.write_line(f"{len(self._results)} rules on {', '.join(servers)}")


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """All running servers."""
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
def cluster(server: str, servers: Servers) -> Cluster:
    """A client of the platform for the server under test."""
    return servers.clients(server)[0]


@pytest.fixture
def http(server: str, servers: Servers) -> Http:
    """Raw requests, for rules that store nothing."""
    return servers.clients(server)[1]


@pytest.fixture
def world(server: str, kubeconfig: Path, cluster: Cluster, http: Http) -> Iterator[World]:
    """The server under test with a namespace for this test."""
    name = f"rule-{os.getpid()}-{next(_NUMBERS)}"
    cluster.create(
        NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    )
    made = World(server, kubeconfig, cluster, http, name)
    yield made
    made.clear()


@pytest.fixture
def proxy(kubeconfig: Path) -> Iterator[FaultProxy]:
    """The proxy for the requests of the platform in tests of the product."""
    with FaultProxy(Upstream.of(kubeconfig)).running() as running:
        yield running


@pytest.fixture
def installed(
    world: World,
    servers: Servers,
    proxy: FaultProxy,
    tmp_path: Path,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[World]:
    """The platform in the cluster under test, with a separate epoch.

    It is installed once per server; each test has another system namespace.
    """
    settings.KUBE_MODE = "required"
    settings.KUBECONFIG = str(proxy.write_kubeconfig(tmp_path / "kubeconfig"))
    system = f"{world.namespace}-system"
    world.cluster.create(
        NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": system}}
    )
    settings.GPUPLATFORM_SYSTEM_NAMESPACE = system
    monkeypatch.setattr(epoch, "_COMPARED", ProcessLocal(threading.Event))
    close_clusters()
    if world.server not in servers.installed:
        call_command("install_cluster", verbosity=0)
        servers.installed.add(world.server)
    yield world
    close_clusters()


@pytest.fixture
def pools(installed: World, settings: Settings) -> Pools:
    """Stock pools in the namespace of this test."""
    settings.POOL_NAMESPACES = (installed.namespace,)
    return Pools(installed.cluster, installed.namespace)


@pytest.fixture
def units(installed: World) -> Iterator[Units]:
    """A tenant with the namespace of this test; its stock is deleted at the end."""
    made = Units(installed.cluster, installed.namespace)
    yield made
    made.clear()


@pytest.fixture
def watching() -> Iterator[threading.Event]:
    """Run a controller from the time at which the event is set until the end of the test."""
    begin, stop = threading.Event(), threading.Event()

    def watch() -> None:
        begin.wait()
        try:
            if not stop.is_set():
                Controller(get_cluster(), get_watch_cluster(), "test").run(stop)
        finally:
            connection.close()

    thread = threading.Thread(target=watch)
    thread.start()
    yield begin
    stop.set()
    begin.set()
    thread.join()


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the clock of the platform one minute ahead, after all grace periods."""
    now = clock.now
    monkeypatch.setattr(clock, "now", lambda: now() + timedelta(minutes=1))


@pytest.fixture
def widgets(world: World) -> ResourceKind:
    """A custom kind with validation, pruning and defaults."""
    return install(world, WIDGET, definition(WIDGET.group))


@pytest.fixture
def gadgets(world: World) -> ResourceKind:
    """A custom kind with short names, scale, selectable fields and validation rules."""
    return install(world, GADGET, gadgets_definition())


@pytest.fixture
def control(world: World) -> Iterator[Control]:
    """The control object of the simulated nodes; reset at the end."""
    control_object = Control(world)
    yield control_object
    control_object.clear()
