"""The start of a process whose cluster or port is unavailable."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from gpuplatform.dev.embedded.ports import LOOPBACK, free_port
from gpuplatform.dev.embedded.processes import wait_until
from gpuplatform.nats.keys import KeyKind, KeyPair
from tests.commands.processes.alone import Process
from tests.fakes.odd_clusters import cluster_in

pytestmark = [
    pytest.mark.processes,
    pytest.mark.long,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]

START_SECONDS = 20
ALL_SECONDS = 120
"""Six in parallel, with a margin for a machine that runs other tests."""
CELERY = ("-m", "celery", "--app", "gpuplatform.celery")
QUIET = ("--concurrency", "1", "--without-gossip", "--without-mingle")
WEB = ("-m", "gunicorn", "--config", "python:gpuplatform.processes.webserver", "--workers", "1")
COMMANDS = {
    "web": (*WEB, "--bind", f"{LOOPBACK}:0"),
    "worker": (*CELERY, "worker", "--queues", "test-start", *QUIET),
    "beat": (*CELERY, "beat", "--pidfile="),
    "controller": ("manage.py", "run_controller"),
    "activator": ("manage.py", "run_activator"),
    "results": ("manage.py", "run_result_store"),
}
NEEDS_ONE = "KUBE_MODE=required needs a cluster, but no kubeconfig was found"
NONE_BY_CHOICE = "This platform runs without a cluster (KUBE_MODE={mode})"
GOES_ON = ""
ENDS = {
    ("required", "nowhere"): dict.fromkeys(COMMANDS, NEEDS_ONE)
    | {"beat": GOES_ON, "results": GOES_ON},
    ("required", "away"): dict.fromkeys(COMMANDS, GOES_ON),
    ("auto", "nowhere"): dict.fromkeys(COMMANDS, GOES_ON)
    | dict.fromkeys(("controller", "activator"), NONE_BY_CHOICE.format(mode="auto")),
    ("off", "nowhere"): dict.fromkeys(COMMANDS, GOES_ON)
    | dict.fromkeys(("controller", "activator"), NONE_BY_CHOICE.format(mode="off")),
}
"""The exit message of each process by mode and cluster. The health page reports running ones."""

WORKS = {
    "web": "Booting worker",
    "worker": "[queues]",
    "beat": "scheduler ->",
    "controller": "connection refused",
    "activator": "connection refused",
    "results": "Connect call failed",
}
"""The output of a process that keeps running."""

ASKS = ("controller", "activator")
"""Processes that call the cluster at their start; the others call it at their first work."""
REFUSALS = {
    "slow": "response timed out",
    "refusing with 401": "Unauthorized",
    "refusing with 403": "Forbidden",
    "with a wrong TLS": "the certificate cannot be verified",
}
"""The error of a process that calls such a cluster."""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The settings of a process that runs with this test."""
    base, _slash, _name = os.environ["DATABASE_URL"].rpartition("/")
    return {
        "DATABASE_URL": f"{base}/{connection.settings_dict['NAME']}",
        "GPUPLATFORM_DEV": "1",
        "GPUPLATFORM_ROLE": "command",
        "HOME": str(tmp_path),
        "KUBECONFIG": "",
        "NATS_URL": f"nats://{LOOPBACK}:{free_port()}",
        "GPUPLATFORM_NATS_SEED": KeyPair.generate(KeyKind.ACCOUNT).seed,
    }


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[Process]]:
    """Processes that end with the test."""
    made: list[Process] = []
    yield made
    for process in made:
        process.kill()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("mode", "cluster"), ENDS, ids=[" ".join(case) for case in ENDS])
def test_a_process_exits_with_a_message_or_keeps_running(
    environment: dict[str, str],
    started: list[Process],
    tmp_path: Path,
    mode: str,
    cluster: str,
    command: str,
) -> None:
    with cluster_in(cluster, tmp_path) as environment["KUBECONFIG"]:
        process = Process(tmp_path / "log", *COMMANDS[command], **environment, KUBE_MODE=mode)
        started.append(process)

        sentence = ENDS[mode, cluster][command]
        if sentence:
            assert process.wait_for_its_end(START_SECONDS) == 1
            assert sentence in process.log.read_text()
        else:
            _goes_on(process, WORKS[command])
    assert "Traceback" not in _log(process)


@pytest.mark.parametrize("cluster", REFUSALS)
def test_each_process_keeps_running_with_a_failing_cluster(
    environment: dict[str, str], started: list[Process], tmp_path: Path, cluster: str
) -> None:
    with cluster_in(cluster, tmp_path) as environment["KUBECONFIG"]:
        for command, arguments in COMMANDS.items():
            log = tmp_path / command
            started.append(Process(log, *arguments, **environment, KUBE_MODE="required"))

        for command, process in zip(COMMANDS, started, strict=True):
            _goes_on(process, REFUSALS[cluster] if command in ASKS else WORKS[command])
            assert "Traceback" not in _log(process)


def _goes_on(process: Process, words: str) -> None:
    assert wait_until(lambda: _said(process, words), ALL_SECONDS), _log(process)[-900:]
    assert process.is_running, _log(process)[-900:]


def _said(process: Process, words: str) -> bool:
    return words in _log(process) or not process.is_running


def _log(process: Process) -> str:
    return process.log.read_text()


def test_web_on_a_port_in_use_exits_with_a_message(
    environment: dict[str, str], started: list[Process], tmp_path: Path
) -> None:
    with socket.socket() as other:
        other.bind((LOOPBACK, 0))
        other.listen()
        address = f"{LOOPBACK}:{other.getsockname()[1]}"
        process = Process(tmp_path / "log", *WEB, "--bind", address, **environment)
        started.append(process)

        assert process.wait_for_its_end(START_SECONDS) == 1

    log_text = _log(process)
    assert "Address already in use" in log_text
    assert "Can't connect to" in log_text
    assert "Traceback" not in log_text
