from dataclasses import replace
from pathlib import Path

import pytest

from gpuplatform.dev.embedded.data_directory import DataDirectory
from gpuplatform.dev.embedded.layout import SERVERLESS, WORKERS, Layout, Worker
from gpuplatform.dev.embedded.nats import Nats
from gpuplatform.dev.embedded.options import Options
from gpuplatform.dev.embedded.postgres import Postgres
from gpuplatform.dev.embedded.supervisor import Part
from gpuplatform.dev.embedded.valkey import Valkey
from gpuplatform.nats.keys import KeyKind, KeyPair
from gpuplatform.queueing import Queue

DATA = Path("/data of a person")
OURS = {"web", *WORKERS, "beat", "controller", *SERVERLESS}
SIMULATED = Options(DataDirectory(DATA), "", "", "", "simulated", "", wants_demo=True)
REAL = replace(SIMULATED, kube_mode="required", kubeconfig="/real/config", wants_demo=False)
OFF = replace(SIMULATED, kube_mode="off", wants_demo=False)
OWN_SERVERS = replace(
    SIMULATED, database_url="postgres://own", redis_url="redis://own", nats_url="nats://own"
)


def layout(options: Options) -> Layout:
    programs = DATA / "programs"
    postgres = None if options.database_url else Postgres(DATA, programs, 5, "secret", None)
    valkey = None if options.redis_url else Valkey(DATA, 6, "secret")
    nats = None if options.nats_url else Nats(DATA, 5, KeyPair.generate(KeyKind.ACCOUNT))
    return Layout(options, 8080, 7, postgres, valkey, nats)


def parts(options: Options) -> dict[str, Part]:
    return {part.name: part for part in layout(options).parts()}


EVERY_MODE = pytest.mark.parametrize(
    "options",
    [
        pytest.param(SIMULATED, id="simulated"),
        pytest.param(REAL, id="real cluster"),
        pytest.param(OFF, id="no cluster"),
        pytest.param(OWN_SERVERS, id="own servers"),
    ],
)


@EVERY_MODE
def test_parts_wait_only_for_existing_parts_without_a_cycle(options: Options) -> None:
    started: set[str] = set()
    waiting = parts(options)
    while possible := [name for name, part in waiting.items() if started >= set(part.after)]:
        started |= set(possible)
        waiting = {name: part for name, part in waiting.items() if name not in started}

    assert waiting == {}


@EVERY_MODE
def test_processes_start_after_the_preparation(options: Options) -> None:
    found = parts(options)

    for name in OURS & set(found):
        assert "prepare" in found[name].after


def test_everything_is_embedded_by_default() -> None:
    assert set(parts(SIMULATED)) >= OURS | {
        "postgres",
        "valkey",
        "nats",
        "cluster",
        "kubelet",
        "demo",
    }


def test_external_servers_replace_the_embedded_ones() -> None:
    found = parts(OWN_SERVERS)

    assert not {"postgres", "valkey", "nats"} & set(found)
    assert layout(OWN_SERVERS).addresses()["DATABASE_URL"] == "postgres://own"
    assert layout(OWN_SERVERS).addresses()["REDIS_URL"] == "redis://own"
    assert layout(OWN_SERVERS).addresses()["NATS_URL"] == "nats://own"


def test_a_real_cluster_has_no_simulator_and_no_demo() -> None:
    found = parts(REAL)

    assert not {"cluster", "kubelet", "demo"} & set(found)
    assert layout(REAL).addresses()["KUBECONFIG"] == "/real/config"


def test_without_a_cluster_no_part_needs_one() -> None:
    needs_cluster = {"cluster", "kubelet", "controller", "demo", *SERVERLESS}
    assert not needs_cluster & set(parts(OFF))


def test_arguments_contain_no_password() -> None:
    for part in parts(SIMULATED).values():
        assert part.command is None or not any("secret" in word for word in part.command.argv)


def test_servers_stop_last() -> None:
    last = {name for name, part in parts(SIMULATED).items() if part.is_server}

    assert last == {"postgres", "valkey", "nats", "cluster"}


def test_each_process_has_its_own_metrics_port() -> None:
    measured = replace(layout(SIMULATED), metrics_ports=SIMULATED.metrics_ports(sorted(OURS)))
    ports = {
        part.name: part.command.env["GPUPLATFORM_METRICS_PORT"]
        for part in measured.parts()
        if part.command and "GPUPLATFORM_METRICS_PORT" in part.command.env
    }

    assert "0" not in {ports[name] for name in OURS}
    assert len({ports[name] for name in OURS} | {str(measured.port)}) == len(OURS) + 1
    assert {port for name, port in ports.items() if name not in OURS} == {"0"}


@pytest.mark.parametrize(
    ("asked", "ports"),
    [("0", {}), ("9400", {"web": 9400, "beat": 9401})],
)
def test_the_requested_port_is_that_of_the_first_process(
    asked: str, ports: dict[str, int]
) -> None:
    options = replace(SIMULATED, metrics_port=asked)

    assert options.metrics_ports(["web", "beat"]) == ports


def test_one_worker_serves_all_queues() -> None:
    (worker,) = WORKERS.values()

    assert set(worker.queues) == set(Queue)


def test_each_queue_can_have_its_own_worker_as_in_production() -> None:
    apart = {name.value: Worker((name,), children=1) for name in Queue}
    names = {part.name for part in replace(layout(OFF), workers=apart).parts()}

    assert names >= set(Queue)
    assert "worker" not in names


def test_the_cluster_is_prepared_unless_it_is_off() -> None:
    commands = {
        mode: part.command.argv
        for mode, options in {"simulated": SIMULATED, "off": OFF}.items()
        if (part := parts(options)["prepare"]).command
    }

    assert "--cluster" in commands["simulated"]
    assert "--cluster" not in commands["off"]
    assert parts(SIMULATED)["prepare"].after == ("postgres", "cluster")
