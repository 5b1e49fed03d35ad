from dataclasses import replace
from typing import Any

import pytest

from gpuplatform.dev.simulator.kubelet.containers import Timing
from gpuplatform.dev.simulator.kubelet.options import GPU
from gpuplatform.dev.simulator.kubelet.pods import NodeContext, PodHistory, Step, step
from gpuplatform.dev.simulator.kubelet.texts import go_duration, timestamp

SLICE = "nvidia.com/mig-1g.10gb"
START = 1_800_000_000.0
PLACE = NodeContext("10.100.0.1", "10.200.0.1", Timing(1.0, 10.0), free_devices={GPU: 8})


class Life:
    """One pod over time; each step is stored as by an API server."""

    def __init__(self, *command: str, image: str = "app:1", policy: str = "Always") -> None:
        container: dict[str, Any] = {"name": "main", "image": image}
        if command:
            container["command"] = list(command)
        self.pod: dict[str, Any] = {
            "metadata": {"name": "one", "namespace": "default", "uid": "u-1"},
            "spec": {"nodeName": "n", "restartPolicy": policy, "containers": [container]},
        }
        self.history = PodHistory()
        self.writes = 0

    def at(self, seconds: float, context: NodeContext = PLACE) -> Step:
        taken = step(self.pod, self.history, context, START + seconds)
        if taken.status is not None:
            self.pod["status"] = {**self.pod.get("status", {}), **taken.status}
            self.writes += 1
        return taken

    def run(self, seconds: float) -> list[str]:
        """Advance to each due time up to `seconds`; return the states in order."""
        seen, now = [], 0.0
        for _ in range(200):
            due = self.at(now).due
            seen.append(self.state())
            if due is None or due - START > seconds:
                return seen
            now = max(due - START, now)
        return seen

    def state(self) -> str:
        state = self.status()["state"]
        return str((state.get("waiting") or {}).get("reason") or next(iter(state)))

    def status(self) -> dict[str, Any]:
        return dict(self.pod["status"]["containerStatuses"][0])

    def condition(self, name: str) -> dict[str, Any]:
        conditions = {entry["type"]: entry for entry in self.pod["status"]["conditions"]}
        return dict(conditions[name])

    def delete(self, grace: float) -> None:
        self.pod["metadata"]["deletionTimestamp"] = timestamp(START + grace)


def test_a_pod_is_created_then_runs_ready() -> None:
    life = Life()

    assert life.run(5) == ["ContainerCreating", "running"]
    assert life.pod["status"]["phase"] == "Running"
    assert life.condition("Ready")["status"] == "True"


def test_an_unchanged_pod_is_not_written() -> None:
    life = Life()
    life.run(5)
    writes = life.writes

    for second in range(10, 100, 10):
        assert life.at(second) == Step()
    assert life.writes == writes


def test_a_restarted_kubelet_does_not_change_a_running_pod() -> None:
    life = Life()
    life.run(5)
    life.history = PodHistory()

    assert life.at(60) == Step()


def test_pulling_alternates_between_error_and_back_off() -> None:
    life = Life(image="example.invalid/app")

    states = life.run(34)

    assert states == ["ContainerCreating", *["ErrImagePull", "ImagePullBackOff"] * 3]
    assert life.pod["status"]["phase"] == "Pending"


NO_SECRET = replace(PLACE, config_errors={"main": 'secret "hf" not found'})


def test_a_container_without_its_variables_has_a_stable_status() -> None:
    life = Life()
    life.at(0, NO_SECRET)
    life.at(1, NO_SECRET)
    writes = life.writes
    for second in range(2, 60):
        life.at(second, NO_SECRET)

    assert life.state() == "CreateContainerConfigError"
    assert life.status()["state"]["waiting"]["message"] == 'secret "hf" not found'
    assert life.pod["status"]["phase"] == "Pending"
    assert life.writes == writes, "it is written once"
    life.at(62)
    assert (life.state(), life.status()["restartCount"]) == ("running", 0)


def test_a_restarted_container_without_its_variables_waits() -> None:
    life = Life("sleep", "5")
    life.run(5)
    for second in range(6, 30):
        life.at(second, NO_SECRET)

    assert life.state() == "CreateContainerConfigError"
    assert life.status()["restartCount"] == 0
    assert life.status()["lastState"]["terminated"]["exitCode"] == 0
    life.at(32)
    assert (life.state(), life.status()["restartCount"]) == ("running", 1)


def test_a_crash_loop_doubles_its_back_off() -> None:
    life = Life("false")

    life.run(76)

    message = life.status()["state"]["waiting"]["message"]
    assert message == "back-off 1m20s restarting failed container=main pod=one_default(u-1)"
    assert life.status()["restartCount"] == 4
    assert life.status()["lastState"]["terminated"]["exitCode"] == 1


def test_back_off_ends_at_five_minutes() -> None:
    life = Life("false")

    life.run(3600)

    assert "back-off 5m0s" in life.status()["state"]["waiting"]["message"]


@pytest.mark.parametrize(
    ("policy", "command", "phase"),
    [
        ("Never", "true", "Succeeded"),
        ("Never", "false", "Failed"),
        ("OnFailure", "true", "Succeeded"),
    ],
)
def test_a_pod_that_is_not_restarted_ends(policy: str, command: str, phase: str) -> None:
    life = Life(command, policy=policy)

    life.run(60)

    assert life.pod["status"]["phase"] == phase
    assert life.status()["restartCount"] == 0


def test_a_deleted_pod_ends_immediately_and_is_removed() -> None:
    life = Life()
    life.run(5)
    life.delete(grace=35)

    taken = life.at(6)

    assert taken.remove
    assert life.pod["status"]["phase"] == "Succeeded"
    assert [event.reason for event in taken.events] == ["Killing"]


def test_a_pod_that_ignores_sigterm_is_killed_after_its_grace_period() -> None:
    life = Life("sh", "-c", "trap '' TERM; serve")
    life.run(5)
    life.delete(grace=35)

    early = life.at(6)
    late = life.at(35)

    assert (early.remove, early.due) == (False, START + 35)
    assert late.remove
    assert life.status()["state"]["terminated"]["exitCode"] == 137
    assert life.pod["status"]["phase"] == "Failed"


def test_a_held_pod_stays_terminating() -> None:
    life = Life()
    life.run(5)
    life.delete(grace=6)
    held = NodeContext(
        "10.100.0.1", "10.200.0.1", Timing(1, 10), free_devices={GPU: 8}, hold_terminating=True
    )

    assert life.at(100, held) == Step()
    assert life.at(101).remove


def test_an_evicted_pod_fails_with_the_message_of_the_node() -> None:
    life = Life()
    life.run(5)

    life.at(
        6,
        NodeContext("10.100.0.1", "10.200.0.1", Timing(1, 10), free_devices={GPU: 8}, evict=True),
    )

    assert life.pod["status"]["phase"] == "Failed"
    assert life.pod["status"]["reason"] == "Evicted"
    assert life.condition("DisruptionTarget")["reason"] == "TerminationByKubelet"


def test_a_pod_without_free_gpus_is_rejected() -> None:
    life = Life()
    life.pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "2"}}

    life.at(0, NodeContext("10.100.0.1", "10.200.0.1", Timing(1, 10), free_devices={GPU: 1}))

    assert life.pod["status"]["reason"] == "UnexpectedAdmissionError"
    assert "Requested: 2, Available: 1" in life.pod["status"]["message"]


def test_each_device_of_a_node_is_admitted_separately() -> None:
    free = {GPU: 0, SLICE: 2}
    context = NodeContext("10.100.0.1", "10.200.0.1", Timing(1, 10), free_devices=free)

    admitted, rejected, unknown = Life(), Life(), Life()
    for life, limits in (
        (admitted, {SLICE: "2"}),
        (rejected, {SLICE: "3"}),
        (unknown, {"example.com/other": "1k"}),
    ):
        life.pod["spec"]["containers"][0]["resources"] = {"limits": limits}
        life.at(0, context)

    assert rejected.pod["status"]["reason"] == "UnexpectedAdmissionError"
    assert f"{SLICE}. Requested: 3, Available: 2" in rejected.pod["status"]["message"]
    assert {one.pod["status"].get("reason") for one in (admitted, unknown)} == {None}


def test_durations_have_the_format_of_go() -> None:
    assert [go_duration(seconds) for seconds in (0.5, 10, 80, 300)] == [
        "500ms",
        "10s",
        "1m20s",
        "5m0s",
    ]
