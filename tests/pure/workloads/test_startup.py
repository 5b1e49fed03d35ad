"""The reasons why pods do not start: a cause from machine-readable values, and a message."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpuplatform.clock import rfc3339
from gpuplatform.kube.fields import condition, field, items, number
from gpuplatform.kube.kinds import Manifest
from gpuplatform.planning.view import ResourceView
from gpuplatform.workloads.causes import StartupCause
from gpuplatform.workloads.container_failures import StartupFailure
from gpuplatform.workloads.startup import (
    PULL_GRACE_SECONDS,
    REFUSAL_GRACE_SECONDS,
    pod_start,
    startup_delay,
    startup_failure,
)
from tests.factories.inventory import pod, pool_resource, waiting_pod


def container(**state: Any) -> dict[str, Any]:
    return {"name": "runtime-worker", **state}


def crashed(**terminated: Any) -> Manifest:
    """Return a pod in a crash loop with the last termination `terminated`."""
    waiting = {
        "reason": "CrashLoopBackOff",
        "message": "back-off 5m0s restarting failed container=runtime-worker",
    }
    return pod(
        containerStatuses=[
            container(state={"waiting": waiting}, lastState={"terminated": terminated})
        ]
    )


def unschedulable(message: str | None) -> Manifest:
    reason = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return pod(conditions=[reason if message is None else {**reason, "message": message}])


def refused(message: str | None) -> Manifest:
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}
    return {
        "status": {"conditions": [failure if message is None else {**failure, "message": message}]}
    }


def failure(*pods: Manifest, deployment: Manifest | None = None) -> StartupFailure:
    found = startup_failure(pods, deployment or {})
    assert found is not None
    return found


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
def test_a_pod_that_is_starting_is_no_failure(reason: str) -> None:
    assert startup_failure([waiting_pod(reason)], {}) is None


def test_without_pods_and_conditions_there_is_no_failure() -> None:
    assert startup_failure([], {}) is None


@pytest.mark.parametrize(
    ("reason", "message", "cause", "is_transient"),
    [
        ("ErrImagePull", "rpc error: not found", StartupCause.IMAGE_PULL_FAILED, True),
        ("RegistryUnavailable", "no route", StartupCause.IMAGE_PULL_FAILED, True),
        ("InvalidImageName", "must be lowercase", StartupCause.IMAGE_PULL_FAILED, False),
        ("ErrImageNeverPull", "never", StartupCause.IMAGE_PULL_FAILED, False),
        (
            "CreateContainerConfigError",
            'secret "x" not found',
            StartupCause.CONTAINER_CREATE_FAILED,
            False,
        ),
        ("RunContainerError", "no such file", StartupCause.CONTAINER_CREATE_FAILED, False),
        ("SomethingNew", "of a later release", StartupCause.CONTAINER_CREATE_FAILED, False),
    ],
)
def test_a_waiting_reason_decides_the_cause(
    reason: str, message: str, cause: StartupCause, is_transient: bool
) -> None:
    found = failure(waiting_pod(reason, message))

    assert (found.cause, found.is_transient, found.is_back_off) == (cause, is_transient, False)
    assert all(part in found.text for part in (reason, message, "pool-h100-a"))


@pytest.mark.parametrize(
    "misleading",
    ["OOMKilled", "exceeded quota", "Back-off pulling image", "0/3 nodes are available"],
)
def test_a_message_decides_nothing(misleading: str) -> None:
    found = failure(waiting_pod("CreateContainerError", misleading))

    assert (found.cause, found.is_back_off) == (StartupCause.CONTAINER_CREATE_FAILED, False)


def test_a_back_off_that_names_its_error_equals_the_error() -> None:
    error = 'failed to pull "x:y": manifest unknown'

    assert failure(waiting_pod("ErrImagePull", error)) == failure(
        waiting_pod("ImagePullBackOff", f'Back-off pulling image "x:y": ErrImagePull: {error}')
    )


def test_a_crash_loop_shows_the_last_termination() -> None:
    found = failure(crashed(reason="Error", exitCode=1, message="no CUDA device\n"))

    assert (found.cause, found.is_back_off) == (StartupCause.CONTAINER_EXITED, False)
    assert "no CUDA device" in found.text


def test_a_crash_and_the_wait_after_it_are_equal() -> None:
    ended = {"reason": "Error", "exitCode": 3}

    assert failure(crashed(**ended)) == failure(
        pod(containerStatuses=[container(state={"terminated": ended})])
    )


@pytest.mark.parametrize(
    ("terminated", "cause", "part"),
    [
        ({"reason": "OOMKilled", "exitCode": 137}, StartupCause.OUT_OF_MEMORY, "OOMKilled"),
        (
            {"reason": "StartError", "exitCode": 128, "message": "exec failed"},
            StartupCause.CONTAINER_CREATE_FAILED,
            "exec failed",
        ),
        ({"reason": "Completed", "exitCode": 0}, StartupCause.CONTAINER_EXITED, "exit code 0"),
        ({"reason": "Error", "exitCode": 137}, StartupCause.CONTAINER_EXITED, "exit code 137"),
        ({"signal": 9}, StartupCause.CONTAINER_EXITED, "signal 9"),
    ],
)
def test_a_termination_decides_the_cause(
    terminated: dict[str, Any], cause: StartupCause, part: str
) -> None:
    found = failure(crashed(**terminated))

    assert (found.cause, found.is_back_off) == (cause, False)
    assert part in found.text
    assert "None" not in found.text


@pytest.mark.parametrize("last", [{}, None])
def test_a_crash_loop_without_a_termination_is_a_back_off(last: object) -> None:
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting"}
    status = container(state={"waiting": waiting}, lastState={"terminated": last})

    found = failure(pod(containerStatuses=[status]))

    assert (found.cause, found.is_back_off) == (StartupCause.CONTAINER_EXITED, True)


def view(cause: str, *, reason: str = "PodStartupFailed", generation: int = 3) -> ResourceView:
    """Return a resource of generation 3 whose status reports a failure of `generation`."""
    ready = {
        "type": "Ready",
        "reason": reason,
        "message": "as before",
        "observedGeneration": generation,
    }
    status = {"conditions": [ready], "cause": cause}
    return ResourceView.of(pool_resource(metadata={"generation": 3}, status=status))


PULL_BACK_OFF = waiting_pod("ImagePullBackOff", 'Back-off pulling image "x:y"')
CRASH_BACK_OFF = waiting_pod("CrashLoopBackOff", "back-off 10s restarting")


@pytest.mark.parametrize(
    ("found", "before", "cause"),
    [
        (PULL_BACK_OFF, "ImagePullFailed", StartupCause.IMAGE_PULL_FAILED),
        (PULL_BACK_OFF, "", StartupCause.IMAGE_PULL_FAILED),
        (CRASH_BACK_OFF, "OutOfMemory", StartupCause.OUT_OF_MEMORY),
        (CRASH_BACK_OFF, "ContainerCreateFailed", StartupCause.CONTAINER_CREATE_FAILED),
        (CRASH_BACK_OFF, "", StartupCause.CONTAINER_EXITED),
    ],
    ids=["pull", "pull-of-an-earlier-release", "memory", "create", "crash-of-an-earlier-release"],
)
def test_a_back_off_keeps_the_failure_that_it_repeats(
    found: Manifest, before: str, cause: StartupCause
) -> None:
    failure = pod_start(view(before), [found], {}, None).failure

    assert failure is not None
    assert (failure.cause, failure.text) == (cause, "as before")


@pytest.mark.parametrize(
    ("found", "resource"),
    [
        (PULL_BACK_OFF, view("Unschedulable")),
        (CRASH_BACK_OFF, view("ImagePullFailed")),
        (PULL_BACK_OFF, view("ImagePullFailed", generation=2)),
        (PULL_BACK_OFF, view("ImagePullFailed", reason="UnitProgressing")),
        (waiting_pod("ErrImagePull", "not found"), view("ImagePullFailed")),
        (PULL_BACK_OFF, ResourceView.of(pool_resource())),
    ],
    ids=["other-cause", "pull-then-crash", "generation", "reason", "error", "no-status"],
)
def test_any_other_failure_is_reported_as_found(found: Manifest, resource: ResourceView) -> None:
    assert pod_start(resource, [found], {}, None).failure == failure(found)


STARTED = datetime(2026, 1, 31, 12, tzinfo=UTC)
YOUNG, OLD = (STARTED + timedelta(seconds=PULL_GRACE_SECONDS + late) for late in (-1, 0))


def begun(reason: str, start: object = "2026-01-31T12:00:00Z") -> Manifest:
    """Return a pod that has been waiting since its start."""
    found = waiting_pod(reason, "m")
    found["status"]["startTime"] = start
    return found


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "RegistryUnavailable"])
def test_a_failed_pull_is_a_failure_only_after_its_grace_period(reason: str) -> None:
    assert startup_failure([begun(reason)], {}, YOUNG) is None

    found = startup_failure([begun(reason)], {}, OLD)

    assert found is not None
    assert found.cause == StartupCause.IMAGE_PULL_FAILED


@pytest.mark.parametrize(
    "reason", ["InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"]
)
def test_a_failure_that_no_retry_heals_has_no_grace_period(reason: str) -> None:
    assert startup_failure([begun(reason)], {}, YOUNG)


def test_a_pull_that_fails_next_to_a_crash_has_no_grace_period() -> None:
    both = begun("ErrImagePull")
    both["status"]["initContainerStatuses"] = [
        {"name": "init", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "b"}}}
    ]

    assert startup_failure([both], {}, YOUNG)


@pytest.mark.parametrize("start", [None, "soon", 5])
def test_a_pod_without_a_valid_start_has_no_grace_period(start: object) -> None:
    assert startup_failure([begun("ErrImagePull", start)], {}, YOUNG)


@pytest.mark.parametrize("hours", [-1, 1], ids=["behind", "ahead"])
def test_a_clock_of_a_node_that_is_an_hour_off_gives_no_grace_period(hours: int) -> None:
    start = rfc3339(YOUNG + timedelta(hours=hours))

    found = startup_failure([begun("ErrImagePull", start)], {}, YOUNG)

    assert found is not None
    assert found.cause == StartupCause.IMAGE_PULL_FAILED


def test_an_older_pod_is_reported_next_to_a_young_one() -> None:
    young, old = begun("ErrImagePull"), begun("ErrImagePull", "2026-01-31T11:00:00Z")

    assert startup_failure([young, old], {}, YOUNG)


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "RegistryUnavailable"])
def test_a_failed_pull_is_a_delay_within_its_grace_period(reason: str) -> None:
    delay = startup_delay([begun(reason)], YOUNG)

    assert delay is not None
    assert delay.cause == StartupCause.IMAGE_PULL_FAILED
    assert "12:00:20 UTC" in delay.text
    assert startup_delay([begun(reason)], OLD) is None


def unready(**status: Any) -> Manifest:
    """Return a pod whose container runs and is not ready."""
    state = {"running": {"startedAt": "2026-01-31T12:00:05Z"}}
    return pod(containerStatuses=[container(state=state, ready=False, **status)])


def test_a_container_that_runs_and_is_not_ready_is_a_delay_that_stays_the_same() -> None:
    plain, probed = unready(), unready()
    probed["spec"] = {"containers": [{"name": "main", "readinessProbe": {"tcpSocket": {}}}]}

    early, late = startup_delay([probed], YOUNG), startup_delay([probed], OLD)

    assert early is not None
    assert early.cause == StartupCause.NOT_READY
    assert "12:00:05 UTC" in early.text
    assert early == late != startup_delay([plain], OLD)


def test_the_delay_of_a_restarted_container_has_the_last_termination() -> None:
    again = unready(lastState={"terminated": {"reason": "OOMKilled", "exitCode": 137}})

    delay = startup_delay([again], OLD)

    assert delay is not None
    assert delay.cause == StartupCause.NOT_READY
    assert "OOMKilled" in delay.text


def test_a_pod_of_an_unreachable_node_is_a_delay() -> None:
    lost = pod(
        conditions=[
            {"type": "Ready", "status": "False"},
            {"type": "ContainersReady", "status": "True"},
        ]
    )
    lost["spec"] = {"nodeName": "gpu-node-3"}

    delay = startup_delay([lost], OLD)

    assert delay is not None
    assert delay.cause == StartupCause.NODE_UNREACHABLE
    assert "gpu-node-3" in delay.text


def test_pods_that_are_ready_or_being_deleted_are_no_delay() -> None:
    ready = pod(containerStatuses=[container(state={"running": {}}, ready=True)])
    going = begun("ErrImagePull")
    going["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:01Z"

    assert startup_delay([ready, going, {}], YOUNG) is None


def test_an_init_container_counts() -> None:
    broken = pod(
        initContainerStatuses=[
            {"name": "init", "state": {"waiting": {"reason": "ErrImagePull", "message": "m"}}}
        ]
    )

    assert "container init" in failure(broken).text


@pytest.mark.parametrize("message", ["0/8 nodes: 1 Insufficient nvidia.com/gpu.", None])
def test_a_pod_that_no_node_takes_is_unschedulable(message: str | None) -> None:
    found = failure(unschedulable(message))

    assert (found.cause, found.is_transient) == (StartupCause.UNSCHEDULABLE, True)
    assert (message or "Unschedulable") in found.text


@pytest.mark.parametrize(
    ("seconds", "is_failure"),
    [(0, False), (19, False), (-5, False), (21, True), (-3600, True)],
    ids=["at once", "in grace", "clock ahead", "after grace", "clock far ahead"],
)
def test_an_unschedulable_pod_fails_after_a_grace_period(
    seconds: float, *, is_failure: bool
) -> None:
    waits = unschedulable("0/8 nodes are available.")
    waits["status"]["conditions"][0]["lastTransitionTime"] = "2026-01-31T12:00:00Z"
    at = datetime(2026, 1, 31, 12, 0, tzinfo=UTC) + timedelta(seconds=seconds)

    failed, delay = startup_failure([waits], {}, at), startup_delay([waits], at)

    assert (failed is not None, delay is None) == (is_failure, is_failure)
    found = failed or delay
    assert found is not None
    assert found.cause == StartupCause.UNSCHEDULABLE
    assert startup_failure([waits], {}) is not None


def test_an_unschedulable_pod_of_unknown_age_has_failed() -> None:
    at = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)

    assert startup_failure([unschedulable(None)], {}, at) is not None


@pytest.mark.parametrize(
    "message",
    [
        'pods "x" is forbidden: exceeded quota: q, requested: memory=1Gi, limited: memory=1Gi',
        'pods "x" is forbidden: failed quota: q: must specify memory',
        'pods "x" is forbidden: looking up service account a/b: serviceaccount "b" not found',
        'admission webhook "policy.example.com" denied the request: no',
        None,
    ],
    ids=["quota", "quota-needs-requests", "account", "webhook", "no-message"],
)
def test_a_pod_that_is_not_created_is_rejected(message: str | None) -> None:
    found = failure(deployment=refused(message))

    assert (found.cause, found.is_transient) == (StartupCause.POD_REJECTED, True)
    assert (message or "FailedCreate") in found.text


@pytest.mark.parametrize(
    ("status", "cause", "part"),
    [
        (
            {"reason": "Evicted", "message": "The node was low on resource"},
            StartupCause.EVICTED,
            "low on resource",
        ),
        (
            {"reason": "UnexpectedAdmissionError"},
            StartupCause.REJECTED_BY_NODE,
            "UnexpectedAdmissionError",
        ),
        ({}, StartupCause.POD_FAILED, "pool-h100-a"),
    ],
)
def test_a_pod_that_failed_as_a_whole(
    status: dict[str, Any], cause: StartupCause, part: str
) -> None:
    found = failure(pod(phase="Failed", **status))

    assert found.cause == cause
    assert part in found.text


def rejected(name: str = "pool-h100-a", *, start: str = "2026-01-31T12:00:00Z") -> Manifest:
    """Return a pod that the kubelet has rejected, because a device failed."""
    found = pod(phase="Failed", reason="UnexpectedAdmissionError", startTime=start)
    found["metadata"]["name"] = name
    return found


def test_a_rejected_pod_fails_after_its_grace_period() -> None:
    inside, after = (STARTED + timedelta(seconds=one) for one in (REFUSAL_GRACE_SECONDS - 1, 21))

    assert startup_failure([rejected()], {}, inside) is None
    delay = startup_delay([rejected()], inside)
    assert delay is not None
    assert delay.cause == StartupCause.REJECTED_BY_NODE
    assert "12:00:20 UTC" in delay.text
    found = startup_failure([rejected()], {}, after)
    assert found is not None
    assert found.cause == StartupCause.REJECTED_BY_NODE
    assert startup_delay([rejected()], after) is None
    assert startup_failure([rejected()], {}) == found


def test_an_evicted_pod_has_no_grace_period() -> None:
    evicted = pod(phase="Failed", reason="Evicted", startTime="2026-01-31T12:00:00Z")

    found = startup_failure([evicted], {}, STARTED)

    assert found is not None
    assert found.cause == StartupCause.EVICTED


def test_an_unschedulable_replacement_is_reported_instead_of_the_rejected_pod() -> None:
    at = STARTED + timedelta(seconds=100)
    pods = [rejected(), unschedulable("0/3 nodes are available")]

    found = startup_failure(pods, {})
    assert found is not None
    assert found.cause == StartupCause.UNSCHEDULABLE
    replaced = [rejected(start="2026-01-31T12:01:40Z"), rejected("b"), pods[1]]
    delayed = startup_failure(replaced, {}, at) or startup_delay(replaced, at)
    assert delayed is not None
    assert delayed.cause == StartupCause.UNSCHEDULABLE


def test_an_eviction_goes_before_the_end_of_the_containers() -> None:
    killed = {"name": "main", "state": {"terminated": {"exitCode": 137, "reason": "Error"}}}
    status = {"reason": "Evicted", "message": "The node was low on resource: memory."}

    evicted = failure(pod(phase="Failed", containerStatuses=[killed], **status))
    ended = failure(pod(phase="Failed", containerStatuses=[killed]))

    assert evicted.cause == StartupCause.EVICTED
    assert ended.cause == StartupCause.CONTAINER_EXITED


@pytest.mark.parametrize(
    ("policy", "cause"),
    [("Always", StartupCause.EVICTED), ("OnFailure", StartupCause.CONTAINER_EXITED)],
)
def test_a_pod_that_must_restart_succeeds_only_if_it_is_evicted(
    policy: str, cause: StartupCause
) -> None:
    ended = {"name": "main", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
    stopped = pod(phase="Succeeded", containerStatuses=[ended])
    stopped["spec"] = {"restartPolicy": policy, "nodeName": "gpu-node-1"}

    assert failure(stopped).cause == cause


def test_a_pod_that_is_being_deleted_is_ignored() -> None:
    old = waiting_pod("ErrImagePull", "gone")
    old["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"

    assert startup_failure([old], {}) is None


def test_a_container_goes_before_the_scheduler_and_that_before_the_deployment() -> None:
    broken, waiting = waiting_pod("ErrImagePull", "pull"), unschedulable("no GPU")
    deployment = refused("quota")

    first = failure(waiting, broken, deployment=deployment)
    second = failure(waiting, deployment=deployment)

    assert first.cause == StartupCause.IMAGE_PULL_FAILED
    assert second.cause == StartupCause.UNSCHEDULABLE


def test_a_text_without_end_is_cut() -> None:
    assert len(failure(waiting_pod("ErrImagePull", "x" * 100_000)).text) <= 1000


def test_a_text_has_no_character_that_the_database_refuses() -> None:
    text = failure(crashed(reason="Error", exitCode=1, message="a\x00b")).text

    assert "\x00" not in text
    assert "a" in text


@pytest.mark.parametrize("junk", [None, 1, "x", [], {}, {"reason": ["ErrImagePull"]}])
def test_malformed_states_raise_nothing(junk: Any) -> None:
    for state in ({"waiting": junk}, {"terminated": junk}, junk):
        broken = pod(containerStatuses=[container(state=state, lastState=junk)])
        startup_failure([broken], {}, OLD)
        startup_delay([broken], OLD)


@pytest.mark.parametrize("junk", [None, 1, "x", [], {"status": None}, {"status": {"a": 1}}])
def test_reading_junk_gives_nothing(junk: Any) -> None:
    assert field(junk, "status", "conditions") is None
    assert number(junk, "status", "replicas") == 0
    assert items(junk, "status", "conditions") == []
    assert condition(junk, "Ready") == {}


@pytest.mark.parametrize("value", [True, "2", 1.5, None])
def test_only_an_integer_is_a_number(value: object) -> None:
    assert number({"replicas": value}, "replicas") == 0
