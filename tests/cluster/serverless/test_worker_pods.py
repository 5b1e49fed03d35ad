"""A worker's pod: its processes, their order, and their end."""

import os
import signal
import sys
from pathlib import Path

import pytest

from gpuplatform.dev.embedded.processes import has_environment
from gpuplatform.kube.kinds import EVENT, NODE, POD, SECRET
from tests.cluster.serverless.pods import (
    SECRET_NAME,
    container_ready,
    pod_ready,
    processes_of,
    worker,
)
from tests.cluster.servers import FAST, process
from tests.cluster.world import World, is_ready, waiting
from tests.sidecar.rig import Rig

pytestmark = [pytest.mark.cluster, pytest.mark.processes]


def folders_of(pids: list[int]) -> set[Path]:
    return {Path(f"/proc/{pid}/cwd").resolve() for pid in pids}


def test_pod_of_worker_responds_to_invocations(world: World, rig: Rig, secret: None) -> None:
    made = world.create(POD, worker(rig.server.url))
    name = made["metadata"]["name"]

    world.until(lambda: pod_ready(world.find(POD, name)))
    key = rig.invoke(text="hello")

    found = rig.finished(key)
    assert found.state == "Succeeded"
    assert found.worker == name
    assert len(processes_of(made)) == 2


def test_only_sidecar_has_credentials(world: World, rig: Rig, secret: None) -> None:
    made = world.create(POD, worker(rig.server.url))
    world.until(lambda: pod_ready(world.find(POD, made["metadata"]["name"])))

    names = {
        variable.partition(b"=")[0]
        for pid in processes_of(made)
        for variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        if b"serverless.examples" in Path(f"/proc/{pid}/cmdline").read_bytes()
    }

    assert b"SERVERLESS_SOCKET_PATH" in names
    assert not names & {b"SERVERLESS_CREDENTIALS_DIRECTORY", b"SERVERLESS_QUEUE_URL"}
    assert not names & {b"DATABASE_URL", b"KUBECONFIG", b"GPUPLATFORM_DEV"}


def test_pod_waits_for_its_secret(world: World, rig: Rig) -> None:
    made = world.create(POD, worker(rig.server.url))
    name = made["metadata"]["name"]
    world.until(lambda: [one for one in world.list(EVENT) if one["reason"] == "FailedMount"])
    assert waiting(world.get(POD, name))["reason"] == "ContainerCreating"
    assert not processes_of(made)

    world.create(SECRET, {"metadata": {"name": SECRET_NAME}, "data": {}})

    world.until(lambda: len(processes_of(made)) == 2)


def test_variable_from_secret_is_in_environment(world: World, rig: Rig, secret: None) -> None:
    manifest = worker(rig.server.url)
    source = {"secretKeyRef": {"name": "hf", "key": "token"}}
    manifest["spec"]["containers"][0]["env"].append(
        {"name": "SERVERLESS_TOKEN", "valueFrom": source}
    )
    made = world.create(POD, manifest)
    name = made["metadata"]["name"]
    world.until(lambda: waiting(world.get(POD, name)).get("message") == 'secret "hf" not found')

    world.create(SECRET, {"metadata": {"name": "hf"}, "data": {"token": "aHVudGVyMg=="}})

    world.until(lambda: pod_ready(world.find(POD, name)))
    having = [
        pid for pid in processes_of(made) if has_environment(pid, "SERVERLESS_TOKEN=hunter2")
    ]
    [command] = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in having]
    assert b"serverless.examples" in command


def test_container_of_crashed_process_restarts(world: World, rig: Rig, secret: None) -> None:
    made = world.create(POD, worker(rig.server.url))
    name = made["metadata"]["name"]
    world.until(lambda: pod_ready(world.find(POD, name)))
    before = processes_of(made)

    for pid in before:
        if b"serverless.examples" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)

    def restarted() -> bool:
        statuses = world.get(POD, name)["status"]["containerStatuses"]
        counts = {entry["name"]: entry["restartCount"] for entry in statuses}
        return counts == {"main": 1, "sidecar": 0}

    world.until(restarted)
    world.until(lambda: pod_ready(world.find(POD, name)))
    assert rig.finished(rig.invoke()).state == "Succeeded"


def test_deleted_pod_stops_processes_in_order(world: World, rig: Rig, secret: None) -> None:
    made = world.create(POD, worker(rig.server.url))
    name = made["metadata"]["name"]
    world.until(lambda: pod_ready(world.find(POD, name)))
    folders = folders_of(processes_of(made))

    world.cluster.delete(POD, name, namespace=world.namespace)

    world.gone(POD, name)
    world.until(lambda: not processes_of(made))
    world.until(lambda: not any(folder.exists() for folder in folders))
    assert len(folders) == 1


def test_deleted_pod_finishes_invocations_first(world: World, rig: Rig, secret: None) -> None:
    made = world.create(POD, worker(rig.server.url))
    name = made["metadata"]["name"]
    world.until(lambda: pod_ready(world.find(POD, name)))
    rig.put(1, b"{}", X_Echo_Seconds="3")
    rig.started(1)

    world.cluster.delete(POD, name, namespace=world.namespace)

    found = rig.finished(1)
    assert (found.state, found.attempt) == ("Succeeded", 1)
    world.gone(POD, name)
    assert rig.messages() == []


def test_readiness_follows_sidecar(world: World, rig: Rig, secret: None) -> None:
    made = world.create(POD, worker(rig.server.url))
    name = made["metadata"]["name"]
    world.until(lambda: pod_ready(world.find(POD, name)))

    rig.server.kill()
    world.until(lambda: not container_ready(world.get(POD, name))["sidecar"])
    assert container_ready(world.get(POD, name))["main"]
    rig.server.start()

    world.until(lambda: pod_ready(world.find(POD, name)))


def test_killed_kubelet_leaves_no_processes(
    world: World, rig: Rig, secret: None, tmp_path: Path
) -> None:
    prefix = f"{world.namespace}-"
    command = [sys.executable, "-m", "gpuplatform.dev.simulator.kubelet", *FAST]
    command += ["--kubeconfig", str(world.kubeconfig), "--nodes", "1", "--prefix", prefix]
    try:
        with process(command, tmp_path / "kubelet.log") as kubelet:
            world.until(lambda: is_ready(world.cluster.get(NODE, f"{prefix}1") or {}))
            made = world.create(POD, worker(rig.server.url, node=f"{prefix}1"))
            world.until(lambda: pod_ready(world.find(POD, made["metadata"]["name"])))
            pids = processes_of(made)
            folders = folders_of(pids)
            assert len(pids) == 2

            kubelet.kill()
            kubelet.wait(10)

            world.until(lambda: not processes_of(made))
            world.until(lambda: not any(folder.parent.exists() for folder in folders))
    finally:
        world.cluster.delete(NODE, f"{prefix}1")
