"""The probes of a simulated program: which succeed, when it is ready, when it is restarted."""

from typing import Any

import pytest

from gpuplatform.dev.simulator.kubelet.probes import (
    HttpRequest,
    Outcome,
    ProbeFailure,
    outcome_of,
    probes_of,
    stop_hook,
)
from gpuplatform.dev.simulator.kubelet.scripts import run_of

PORTS = [{"name": "http", "containerPort": 8000}]
PASSES, FAILS = {"exec": {"command": ["true"]}}, {"exec": {"command": ["false"]}}


def outcome(*command: str, is_unready: bool = False, **container: Any) -> Outcome:
    run = run_of(list(command))
    return outcome_of(container, run, "10.0.0.1", is_unready=is_unready)


@pytest.mark.parametrize(
    ("container", "command", "is_ready"),
    [
        pytest.param({}, [], True, id="no probe"),
        pytest.param({"ports": PORTS, "port": 8000}, [], True, id="a declared port"),
        pytest.param({"ports": PORTS, "port": "http"}, [], True, id="the name of a port"),
        pytest.param({"ports": PORTS, "port": 22}, [], False, id="another port"),
        pytest.param({"ports": PORTS, "port": "ssh"}, [], False, id="an unknown name"),
        pytest.param({"port": 22}, [], True, id="no declared ports"),
        pytest.param({"port": 22}, ["sleep", "infinity"], False, id="no server"),
        pytest.param({"port": 22}, ["sh", "-c", "serve"], True, id="a server in a script"),
    ],
)
@pytest.mark.parametrize("handler", ["tcpSocket", "httpGet", "grpc"])
def test_a_program_listens_on_its_ports(
    container: dict[str, Any], command: list[str], is_ready: bool, handler: str
) -> None:
    given = dict(container)
    probe = {handler: {"port": given.pop("port")}} if "port" in given else None

    found = outcome(*command, readinessProbe=probe, **given)

    assert (found.ready_after_seconds is not None) is is_ready


def test_a_ready_container_has_passed_its_delays_and_successes() -> None:
    startup = {**PASSES, "initialDelaySeconds": 3}
    readiness = {
        **PASSES,
        "initialDelaySeconds": 1,
        "periodSeconds": 2,
        "successThreshold": 3,
    }

    assert outcome(startupProbe=startup, readinessProbe=readiness) == Outcome(3, 7)
    assert outcome(readinessProbe=readiness) == Outcome(0, 5)
    assert outcome(startupProbe=startup) == Outcome(3, 3)


def test_a_failed_startup_probe_restarts_the_container() -> None:
    startup = {**FAILS, "initialDelaySeconds": 5, "periodSeconds": 2, "failureThreshold": 4}

    found = outcome(startupProbe=startup, readinessProbe=PASSES)

    assert (found.started_after_seconds, found.ready_after_seconds) == (None, None)
    assert found.failed_after_seconds == 11
    assert found.failure == ProbeFailure("startup", "Startup probe failed: \n")
    assert found.failure.restarts


def test_a_failed_liveness_probe_restarts_a_ready_container() -> None:
    found = outcome(livenessProbe={**FAILS, "periodSeconds": 1}, readinessProbe=PASSES)

    assert (found.ready_after_seconds, found.failed_after_seconds) == (0, 2)
    assert found.failure is not None
    assert found.failure.restarts


def test_a_failed_readiness_probe_has_the_message_of_the_kubelet() -> None:
    probe = {"httpGet": {"port": 80, "path": "/a"}}

    found = outcome("sleep", "infinity", readinessProbe=probe)

    assert found.failure is not None
    assert found.failure.message == (
        'Readiness probe failed: Get "http://10.0.0.1:80/a": dial tcp 10.0.0.1:80: connect:'
        " connection refused"
    )
    assert not found.failure.restarts


def test_a_program_can_be_unready() -> None:
    assert outcome(is_unready=True) == Outcome(0, None)
    assert outcome(is_unready=True, readinessProbe=PASSES).ready_after_seconds is None


def test_references_in_the_command_of_a_probe_are_expanded() -> None:
    container = {
        "env": [{"name": "A", "value": "false"}],
        "readinessProbe": {"exec": {"command": ["$(A)", "$$(A)"]}},
    }

    assert probes_of(container)["readiness"].command == ("false", "$(A)")


@pytest.mark.parametrize(
    "probe",
    [None, {}, [], {"httpGet": None}, {"exec": {"command": []}}, {"tcpSocket": {"port": None}}],
)
def test_a_probe_without_a_handler_is_absent(probe: object) -> None:
    assert probes_of({"readinessProbe": probe}) == {}


def test_a_hook_is_parsed() -> None:
    requested = {"path": "/drain", "port": 1, "httpHeaders": [{"name": "A", "value": "b"}]}

    assert stop_hook({"lifecycle": {"preStop": {"httpGet": requested}}}) == HttpRequest(
        "/drain", 1, {"A": "b"}
    )
    assert stop_hook({"lifecycle": {"preStop": {"exec": {}}}}) is None
