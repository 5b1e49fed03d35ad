"""The life of pods on a node: probes, restarts, termination, images, logs and commands.

`tests/node` runs the same tests on real nodes, so they use the images of real nodes.
"""

from typing import Any

import pytest

from gpuplatform.kube.kinds import CONFIG_MAP, EVENT, POD, SECRET, Manifest
from tests.cluster.commands import run_in_pod
from tests.cluster.world import World, condition, container, is_ready, pod, waiting
from tests.node.images import APP, BUSYBOX
from tests.node.network import ADDRESS
from tests.node.registry import PORT as REGISTRY_PORT

pytestmark = pytest.mark.cluster

PORT = 8080
FOREVER = "sleep 3600"
PASSES: Manifest = {"exec": {"command": ["true"]}, "periodSeconds": 1}
FAILS: Manifest = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}
MEMORY = {"name": "SIMULATOR_MEMORY", "value": "1Gi"}
"""Makes a simulated program exceed its limit. The test program ignores it."""


def script(text: str, **more: Any) -> Manifest:
    return container("sh", "-c", text, image=BUSYBOX, **more)


def server(**more: Any) -> Manifest:
    ports = [{"name": "http", "containerPort": PORT}]
    return container(image=APP, args=["serve"], ports=ports, **more)


def run(world: World, entry: Manifest, **spec: Any) -> None:
    world.create(POD, pod("one", entry, **{"terminationGracePeriodSeconds": 1, **spec}))


def status(world: World) -> Manifest:
    statuses = (world.get(POD, "one").get("status") or {}).get("containerStatuses") or [{}]
    return dict(statuses[0])


def running(world: World) -> Manifest:
    return world.until(
        lambda: found if "running" in ((found := status(world)).get("state") or {}) else None
    )


def ready(world: World) -> Manifest:
    return world.until(lambda: found if is_ready(found := world.get(POD, "one")) else None)


def last_end(world: World) -> Manifest:
    """Return the last end of the container, when it has one."""

    def found() -> Manifest:
        return (status(world).get("lastState") or {}).get("terminated") or {}

    return world.until(found)


def ended(world: World) -> Manifest:
    """Return the state of the container that has ended for good."""
    return world.until(lambda: (status(world).get("state") or {}).get("terminated"))


def phase(world: World) -> str:
    return str((world.get(POD, "one").get("status") or {}).get("phase"))


def waits_for(world: World, reason: str) -> Manifest:
    return world.until(
        lambda: (
            found if (found := waiting(world.get(POD, "one"))).get("reason") == reason else None
        )
    )


def events(world: World, *reasons: str) -> list[str]:
    """Return the messages of the Events with these reasons, when each of them exists."""

    def found() -> list[str] | None:
        items = [item for item in world.list(EVENT) if item["reason"] in reasons]
        complete = {item["reason"] for item in items} == set(reasons)
        return [item["message"] for item in items] if complete else None

    return world.until(found)


def log(world: World, query: str = "") -> str:
    reply = world.http("GET", world.path(POD, "one", "log") + query, accept="*/*")
    assert reply.status == 200, reply.body
    return str(reply.body)


def deleted(world: World) -> Manifest:
    """Delete the pod, and return its last status before it was removed."""
    version = world.cluster.list(POD, namespace=world.namespace).resource_version
    world.delete(POD, "one")
    last: Manifest = {}
    for event in world.cluster.watch(
        POD, namespace=world.namespace, resource_version=version, timeout_seconds=30
    ):
        if event.type == "DELETED":
            return last
        if event.type == "MODIFIED":
            last = event.object["status"]
    pytest.fail("the pod was not removed")


# Probes


def test_a_pod_is_ready_when_its_server_responds(world: World) -> None:
    probe = {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 1}
    run(world, server(readinessProbe=probe))

    ready(world)

    assert status(world)["started"] is True


def test_a_pod_whose_port_is_closed_is_not_ready(world: World) -> None:
    run(world, script(FOREVER, readinessProbe={"tcpSocket": {"port": PORT}, "periodSeconds": 1}))

    messages = events(world, "Unhealthy")

    assert all(message.startswith("Readiness probe failed: ") for message in messages)
    assert all("connection refused" in message for message in messages)
    found = world.get(POD, "one")
    assert condition(found, "Ready")["reason"] == "ContainersNotReady"
    assert (status(world)["ready"], status(world)["started"]) == (False, True)


def test_a_pod_is_ready_after_the_initial_delay_of_its_probe(world: World) -> None:
    run(world, script(FOREVER, readinessProbe={**PASSES, "initialDelaySeconds": 2}))
    running(world)

    assert not is_ready(world.get(POD, "one"))
    ready(world)


def test_a_failed_liveness_probe_restarts_the_container(world: World) -> None:
    run(world, script(FOREVER, livenessProbe=FAILS))

    end = last_end(world)

    assert (end["exitCode"], end["reason"]) == (137, "Error")
    assert status(world)["restartCount"] >= 1
    [message] = set(events(world, "Killing"))
    assert message == "Container main failed liveness probe, will be restarted"


def test_a_failed_startup_probe_restarts_the_container(world: World) -> None:
    run(world, script(FOREVER, startupProbe=FAILS, readinessProbe=PASSES))

    end = last_end(world)

    assert end["exitCode"] == 137
    [message] = set(events(world, "Killing"))
    assert message == "Container main failed startup probe, will be restarted"
    assert not is_ready(world.get(POD, "one"))


def test_a_pod_is_ready_after_its_startup_probe(world: World) -> None:
    startup = {**PASSES, "initialDelaySeconds": 2}
    run(world, script(FOREVER, startupProbe=startup, readinessProbe=PASSES))
    first = running(world)

    assert (first["started"], first["ready"]) == (False, False)
    ready(world)
    assert status(world)["started"] is True


# Restarts and ends


def test_a_failing_container_is_restarted_with_back_off(world: World) -> None:
    run(world, script("exit 3"))

    message = waits_for(world, "CrashLoopBackOff")["message"]

    assert "restarting failed container=main pod=one_" in message
    found = status(world)
    assert found["restartCount"] >= 1
    end = found["lastState"]["terminated"]
    assert (end["exitCode"], end["reason"]) == (3, "Error")
    assert events(world, "BackOff")
    assert phase(world) == "Running"


@pytest.mark.parametrize(
    ("policy", "code", "expected"),
    [("Never", 0, "Succeeded"), ("Never", 4, "Failed"), ("OnFailure", 0, "Succeeded")],
)
def test_a_container_that_is_not_restarted_ends_its_pod(
    world: World, policy: str, code: int, expected: str
) -> None:
    run(world, script(f"exit {code}"), restartPolicy=policy)

    end = ended(world)

    world.until(lambda: phase(world) == expected)
    assert (end["exitCode"], status(world)["restartCount"]) == (code, 0)
    reason = "PodCompleted" if expected == "Succeeded" else "PodFailed"
    assert condition(world.get(POD, "one"), "Ready")["reason"] == reason


def test_a_failed_container_is_restarted_on_failure(world: World) -> None:
    run(world, script("exit 4"), restartPolicy="OnFailure")

    assert last_end(world)["exitCode"] == 4
    assert status(world)["restartCount"] >= 1


def test_a_container_above_its_memory_limit_is_killed_and_restarted(world: World) -> None:
    limits = {"limits": {"memory": "64Mi"}}
    run(world, container(image=APP, args=["eat"], env=[MEMORY], resources=limits))

    end = last_end(world)

    assert (end["reason"], end["exitCode"]) == ("OOMKilled", 137)
    assert status(world)["restartCount"] >= 1


def test_the_end_of_the_log_is_the_message_of_a_failure(world: World) -> None:
    policy = "FallbackToLogsOnError"
    run(
        world,
        script("echo no model; exit 1", terminationMessagePolicy=policy),
        restartPolicy="Never",
    )

    assert ended(world)["message"] == "no model\n"


def test_the_termination_log_is_the_message(world: World) -> None:
    run(world, script("echo done > /dev/termination-log; echo log"), restartPolicy="Never")

    assert ended(world)["message"] == "done\n"


# Termination


def test_a_deleted_pod_ends_before_it_is_removed(world: World) -> None:
    run(world, server(readinessProbe={"tcpSocket": {"port": PORT}, "periodSeconds": 1}))
    ready(world)

    last = deleted(world)

    assert last["phase"] == "Succeeded"
    [found] = last["containerStatuses"]
    end = found["state"]["terminated"]
    assert (end["exitCode"], end["reason"]) == (0, "Completed")
    assert "Stopping container main" in events(world, "Killing")


def test_a_program_that_ignores_sigterm_is_killed_after_the_grace_period(world: World) -> None:
    run(world, script("trap '' TERM; sleep 3600"), terminationGracePeriodSeconds=2)
    running(world)

    last = deleted(world)

    assert last["phase"] == "Failed"
    assert last["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


def test_a_deleted_pod_in_a_crash_loop_ends(world: World) -> None:
    run(world, script("exit 3"))
    waits_for(world, "CrashLoopBackOff")

    last = deleted(world)

    assert last["phase"] == "Failed"
    assert last["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3


def test_a_deleted_pod_that_never_started_ends(world: World) -> None:
    source = {"secretKeyRef": {"name": "missing", "key": "token"}}
    run(world, script(FOREVER, env=[{"name": "TOKEN", "valueFrom": source}]))
    waits_for(world, "CreateContainerConfigError")

    last = deleted(world)

    assert last["phase"] == "Failed"
    end = last["containerStatuses"][0]["state"]["terminated"]
    assert (end["exitCode"], end["reason"]) == (137, "ContainerStatusUnknown")


# Images and variables


def registry(world: World) -> str:
    return f"{ADDRESS}:{REGISTRY_PORT}" if world.server == "nodes" else "registry.example.com"


def test_an_image_is_pulled_before_the_container_starts(world: World) -> None:
    image = f"{registry(world)}/app:1"
    run(world, container(image=image, args=["serve"], imagePullPolicy="Always"))

    running(world)

    messages = events(world, "Pulling", "Pulled", "Created", "Started")
    assert f'Pulling image "{image}"' in messages
    assert any(text.startswith(f'Successfully pulled image "{image}" in ') for text in messages)
    assert {"Container created", "Container started"} <= set(messages)
    assert status(world)["imageID"].startswith(f"{registry(world)}/app@sha256:")


def test_an_image_that_is_missing_is_not_pulled_again_immediately(world: World) -> None:
    host = registry(world) if world.server == "nodes" else "example.invalid"
    image = f"{host}/missing:1"
    run(world, container(image=image))

    first = waits_for(world, "ErrImagePull")["message"]
    then = waits_for(world, "ImagePullBackOff")["message"]

    assert image in first
    assert then.startswith(f'Back-off pulling image "{image}"')
    assert phase(world) == "Pending"
    expected = {"Error: ErrImagePull", "Error: ImagePullBackOff"}
    world.until(lambda: expected <= set(events(world, "Pulling", "Failed", "BackOff")))


def test_an_image_that_must_not_be_pulled_is_missing(world: World) -> None:
    image = f"{registry(world)}/other:1"
    run(world, container(image=image, imagePullPolicy="Never"))

    message = waits_for(world, "ErrImageNeverPull")["message"]

    assert message == f'Container image "{image}" is not present with pull policy of Never'
    assert events(world, "ErrImageNeverPull")


def test_a_reference_that_is_no_image_is_invalid(world: World) -> None:
    run(world, container(image="No Image"))

    assert waits_for(world, "InvalidImageName")


def test_a_pod_waits_for_the_secret_of_a_variable(world: World) -> None:
    source = {"secretKeyRef": {"name": "hf", "key": "token"}}
    run(world, script(FOREVER, env=[{"name": "TOKEN", "valueFrom": source}]))
    assert waits_for(world, "CreateContainerConfigError")["message"] == 'secret "hf" not found'

    world.create(SECRET, {"metadata": {"name": "hf"}, "data": {"token": "YQ=="}})

    ready(world)
    assert status(world)["restartCount"] == 0


@pytest.mark.parametrize("source", ["secret", "configMap"])
def test_a_pod_waits_for_the_content_of_a_volume(world: World, source: str) -> None:
    reference = {"secretName": "hf"} if source == "secret" else {"name": "hf"}
    volumes = [{"name": "token", source: reference}]
    mounts = [{"name": "token", "mountPath": "/token"}]
    run(world, script(FOREVER, volumeMounts=mounts), volumes=volumes)
    kind = "secret" if source == "secret" else "configmap"
    message = f'MountVolume.SetUp failed for volume "token" : {kind} "hf" not found'
    world.until(lambda: message in events(world, "FailedMount"))
    assert waiting(world.get(POD, "one"))["reason"] == "ContainerCreating"
    assert phase(world) == "Pending"

    manifest = {"metadata": {"name": "hf"}, "data": {"token": "YQ=="}}
    world.create(SECRET if source == "secret" else CONFIG_MAP, manifest)

    ready(world)


def test_references_in_arguments_are_expanded(world: World) -> None:
    variables = [{"name": "A", "value": "one"}, {"name": "B", "value": "$(A)-$$(A)-$(C)"}]
    run(world, script("echo '$(B) $$(A) $(C)'", env=variables), restartPolicy="Never")
    ended(world)

    assert log(world) == "one-$(A)-$(C) $(A) $(C)\n"


# Logs and commands


def test_a_log_has_the_output_of_the_program(world: World) -> None:
    run(world, script(f"echo one; echo two; {FOREVER}"))
    running(world)

    world.until(lambda: log(world) == "one\ntwo\n")
    assert log(world, "?tailLines=1") == "two\n"
    assert log(world, "?limitBytes=2") == "on"
    assert log(world, "?sinceSeconds=3600") == "one\ntwo\n"
    first, _ = log(world, "?timestamps=true&tailLines=1").split(" ", 1)
    assert first.startswith("20")


def test_the_log_of_the_previous_run_is_kept(world: World) -> None:
    run(world, script("echo failed; exit 3"))
    waits_for(world, "CrashLoopBackOff")

    assert log(world, "?previous=true") == "failed\n"


def test_a_followed_log_ends_with_the_program(world: World) -> None:
    run(world, script("echo one; sleep 2"), restartPolicy="Never")
    running(world)

    assert log(world, "?follow=true") == "one\n"
    assert ended(world)["exitCode"] == 0


def test_a_container_that_has_not_started_has_no_log(world: World) -> None:
    run(world, container(image="No Image"))
    waits_for(world, "InvalidImageName")

    reply = world.http("GET", world.path(POD, "one", "log"))

    assert (reply.status, reply.reason) == (400, "BadRequest")
    assert 'container "main" in pod "one" is waiting to start: InvalidImageName' in reply.message


def test_a_command_runs_in_the_container(world: World) -> None:
    run(world, script(FOREVER))
    running(world)

    assert run_in_pod(world, "one", "echo", "hello").output == "hello\n"
    found = run_in_pod(world, "one", "sh", "-c", "echo bad; exit 3")
    assert (found.code, found.output) == (3, "bad\n")
    assert run_in_pod(world, "one", "cat", stdin=b"some\ninput\n").output == "some\ninput\n"
    assert run_in_pod(world, "one", "no-such-program").code is None


# Statuses


def test_a_status_of_another_client_is_corrected(world: World) -> None:
    run(world, script(FOREVER))
    before = ready(world)

    patch: Manifest = {"status": {"containerStatuses": [], "conditions": [], "podIP": None}}
    world.patch(POD, "one", patch, "status")

    world.until(lambda: status(world).get("ready"))
    after = ready(world)["status"]
    assert (
        after["containerStatuses"][0]["containerID"]
        == (before["status"]["containerStatuses"][0]["containerID"])
    )
