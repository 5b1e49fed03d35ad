"""Containers that are local processes: their environment and the status of their pod."""

from dataclasses import replace
from typing import Any

import pytest

from gpuplatform.dev.simulator.kubelet.containers import Timing
from gpuplatform.dev.simulator.kubelet.options import GPU
from gpuplatform.dev.simulator.kubelet.pods import NodeContext, PodHistory, Step, step
from gpuplatform.dev.simulator.kubelet.probes import LIVENESS, ProbeFailure
from gpuplatform.dev.simulator.kubelet.programs import (
    ProcessReport,
    environment,
    module_of,
    own_variables,
    pod_ports,
    running_programs,
)
from gpuplatform.dev.simulator.kubelet.texts import timestamp
from gpuplatform.images import ECHO_IMAGE, SIDECAR_COMMAND

START = 1_800_000_000.0
PLACE = NodeContext("10.100.0.1", "10.200.0.1", Timing(0.0, 10.0), free_devices={GPU: 8})


class Life:
    """A pod with one process over time."""

    def __init__(self) -> None:
        self.pod: dict[str, Any] = {
            "metadata": {"name": "one", "namespace": "default", "uid": "u-1"},
            "spec": {"containers": [{"name": "main", "image": ECHO_IMAGE}]},
        }
        self.history = PodHistory()

    def at(self, seconds: float, report: ProcessReport | None = None) -> Step:
        reports = {} if report is None else {"main": report}
        taken = step(self.pod, self.history, replace(PLACE, reports=reports), START + seconds)
        if taken.status is not None:
            self.pod["status"] = {**self.pod.get("status", {}), **taken.status}
        return taken

    @property
    def status(self) -> dict[str, Any]:
        return dict(self.pod["status"]["containerStatuses"][0])


def test_a_process_is_ready_while_its_probe_succeeds() -> None:
    life = Life()

    life.at(0)
    assert "running" in life.status["state"]
    assert not life.status["ready"]
    life.at(1, ProcessReport(is_ready=True))
    assert life.status["ready"]
    life.at(2, ProcessReport(is_ready=False))
    assert not life.status["ready"]
    life.at(3, ProcessReport(is_ready=True))
    life.at(4)
    assert not life.status["ready"], "the process is not there any more"


def test_an_ended_process_is_a_restarted_container() -> None:
    life = Life()
    life.at(0)
    life.at(1, ProcessReport(is_ready=True))
    assert running_programs(life.pod) == {"main": 0}

    life.at(2, ProcessReport(is_ready=False, exit_code=3))
    assert life.status["state"]["terminated"]["exitCode"] == 3
    assert running_programs(life.pod) == {}
    life.at(5)

    assert running_programs(life.pod) == {"main": 1}


def test_a_deleted_pod_waits_for_its_process() -> None:
    life = Life()
    life.at(0)
    life.pod["metadata"]["deletionTimestamp"] = timestamp(START + 30)

    assert not life.at(1, ProcessReport(is_ready=True)).remove
    ended = life.at(2, ProcessReport(is_ready=False, exit_code=0))

    assert ended.remove
    assert life.status["state"]["terminated"]["exitCode"] == 0


def test_a_process_is_killed_after_the_grace_period() -> None:
    life = Life()
    life.at(0)
    life.pod["metadata"]["deletionTimestamp"] = timestamp(START + 30)
    assert life.at(1, ProcessReport(is_ready=True)).due == START + 30

    assert life.at(30, ProcessReport(is_ready=True)).remove
    assert life.status["state"]["terminated"]["exitCode"] == 137


@pytest.mark.parametrize(
    ("container", "module"),
    [
        ({"image": "any:1", "command": [*SIDECAR_COMMAND]}, "serverless.sidecar"),
        ({"image": "any:1", "command": [*SIDECAR_COMMAND, "more"]}, ""),
        ({"image": ECHO_IMAGE}, "serverless.examples.echo"),
        ({"image": ECHO_IMAGE, "command": ["sleep", "1"]}, ""),
        ({"image": "app:1"}, ""),
    ],
)
def test_known_images_are_programs(container: dict[str, Any], module: str) -> None:
    assert module_of(container) == module


def test_paths_and_addresses_are_translated() -> None:
    container = {
        "image": "any:1",
        "command": [*SIDECAR_COMMAND],
        "ports": [{"containerPort": 8091}],
        "volumeMounts": [
            {"name": "queue", "mountPath": "/run/queue"},
            {"name": "framework", "mountPath": "/run/serverless"},
        ],
        "env": [
            {"name": "SOCKET", "value": "/run/serverless/a.sock"},
            {"name": "FOLDER", "value": "/run/queue"},
            {"name": "OTHER", "value": "/run/queues/x"},
            {"name": "LISTEN", "value": ":8091"},
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "EMPTY"},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}},
            {"name": "LEFT_OUT", "valueFrom": {"secretKeyRef": {"name": "no", "key": "a"}}},
        ],
    }
    pod = {
        "metadata": {"name": "one"},
        "spec": {"containers": [container], "volumes": [{"name": "framework"}, {"name": "queue"}]},
    }

    assert pod_ports(pod) == [8091]
    assert environment(pod, container, {8091: 4711}, {"TOKEN": ":8091"}) == {
        "TOKEN": ":8091",
        "SOCKET": "v0/a.sock",
        "FOLDER": "v1",
        "OTHER": "/run/queues/x",
        "LISTEN": "127.0.0.1:4711",
        "POD": "one",
        "EMPTY": "",
    }


def test_a_process_that_has_not_started_is_not_ready() -> None:
    life = Life()
    life.at(0)

    life.at(1, ProcessReport(is_ready=False, is_started=False))
    assert (life.status["started"], life.status["ready"]) == (False, False)
    life.at(2, ProcessReport(is_ready=False))
    assert (life.status["started"], life.status["ready"]) == (True, False)


def test_a_failed_probe_of_a_process_is_reported_once() -> None:
    life = Life()
    life.at(0)
    failed = ProcessReport(is_ready=False, failure=ProbeFailure(LIVENESS, "no"))

    first, second = life.at(1, failed), life.at(2, failed)

    assert [event.reason for event in first.events] == ["Unhealthy", "Killing"]
    assert second.events == ()
    assert "running" in life.status["state"]


def test_the_log_of_a_failed_process_is_its_message() -> None:
    life = Life()
    life.pod["spec"]["containers"][0]["terminationMessagePolicy"] = "FallbackToLogsOnError"
    life.at(0)

    life.at(1, ProcessReport(is_ready=False, exit_code=1, output="no model\n"))

    assert life.status["state"]["terminated"]["message"] == "no model\n"


def test_a_program_gets_only_its_own_variables() -> None:
    given = {"SERVERLESS_TENANT": "acme", "PYTHONPATH": "/tmp/evil", "LD_PRELOAD": "/tmp/evil.so"}

    assert own_variables(given) == {"SERVERLESS_TENANT": "acme"}
