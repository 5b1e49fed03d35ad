"""Why pods do not start: the most useful of what the cluster says, and always a string."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpuplatform.kube.fields import condition, field, items, number
from gpuplatform.kube.kinds import Manifest
from gpuplatform.workloads.startup import PULL_GRACE_SECONDS, startup_failure, startup_news
from tests.factories.inventory import pod, waiting_pod


def container(**state: Any) -> dict[str, Any]:
    return {"name": "runtime-worker", **state}


def crashed(**terminated: Any) -> Manifest:
    """Return a pod in a crash loop whose last end was `terminated`."""
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


def why(*pods: Manifest, deployment: Manifest | None = None) -> str:
    return startup_failure(pods, deployment or {}) or ""


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
def test_a_pod_that_is_starting_is_no_failure(reason: str) -> None:
    assert why(waiting_pod(reason)) == ""


def test_no_pod_and_no_word_is_no_failure() -> None:
    assert why() == ""


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("ErrImagePull", "rpc error: not found"),
        ("ErrImagePull", "pull access denied, may require 'docker login'"),
        ("ErrImagePull", "toomanyrequests: rate limit"),
        ("InvalidImageName", "repository name must be lowercase"),
        ("CreateContainerConfigError", 'secret "x" not found'),
        ("RunContainerError", "exec: no such file"),
    ],
)
def test_what_the_container_waits_for_is_said_with_its_reason(reason: str, message: str) -> None:
    text = why(waiting_pod(reason, message))

    assert reason in text
    assert message in text
    assert "pool-h100-a" in text


def test_a_back_off_that_says_its_cause_reads_like_the_cause() -> None:
    cause = 'failed to pull "x:y": manifest unknown'

    assert why(waiting_pod("ErrImagePull", cause)) == why(
        waiting_pod("ImagePullBackOff", f'Back-off pulling image "x:y": ErrImagePull: {cause}')
    )


def test_a_crash_loop_shows_the_last_end() -> None:
    text = why(crashed(reason="Error", exitCode=1, message="no CUDA device\n"))

    assert "exit code 1" in text
    assert "no CUDA device" in text
    assert "back-off" not in text


def test_a_crash_and_the_wait_after_it_read_the_same() -> None:
    ended = {"reason": "Error", "exitCode": 3}

    assert why(crashed(**ended)) == why(
        pod(containerStatuses=[container(state={"terminated": ended})])
    )


@pytest.mark.parametrize(
    ("terminated", "words"),
    [
        ({"reason": "OOMKilled", "exitCode": 137}, "OOMKilled"),
        ({"reason": "StartError", "exitCode": 128, "message": "exec failed"}, "exec failed"),
        ({"reason": "Completed", "exitCode": 0}, "exit code 0"),
        ({"signal": 9}, "signal 9"),
        ({}, "restarting failed container"),
    ],
)
def test_every_kind_of_end_is_told(terminated: dict[str, Any], words: str) -> None:
    text = why(crashed(**terminated))

    assert words in text
    assert "None" not in text


def test_a_crash_loop_without_a_last_end_still_says_something() -> None:
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting"}

    assert "back-off 10s" in why(pod(containerStatuses=[container(state={"waiting": waiting})]))


STARTED = datetime(2026, 1, 31, 12, tzinfo=UTC)
YOUNG, OLD = (STARTED + timedelta(seconds=PULL_GRACE_SECONDS + late) for late in (-1, 0))


def begun(reason: str, start: object = "2026-01-31T12:00:00Z") -> Manifest:
    """Return a pod that waits since its start."""
    found = waiting_pod(reason, "m")
    found["status"]["startTime"] = start
    return found


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "RegistryUnavailable"])
def test_a_failed_pull_is_a_failure_only_after_a_time_of_grace(reason: str) -> None:
    assert startup_failure([begun(reason)], {}, YOUNG) is None
    assert reason in (startup_failure([begun(reason)], {}, OLD) or "")


@pytest.mark.parametrize(
    "reason", ["InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"]
)
def test_what_no_second_try_heals_is_a_failure_at_once(reason: str) -> None:
    assert reason in (startup_failure([begun(reason)], {}, YOUNG) or "")


def test_a_pull_that_fails_beside_a_crash_has_no_grace() -> None:
    both = begun("ErrImagePull")
    both["status"]["initContainerStatuses"] = [
        {"name": "init", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "b"}}}
    ]

    assert startup_failure([both], {}, YOUNG)


@pytest.mark.parametrize("start", [None, "soon", 5])
def test_a_pod_without_a_sound_start_has_no_grace(start: object) -> None:
    assert startup_failure([begun("ErrImagePull", start)], {}, YOUNG)


def test_an_older_pod_speaks_beside_a_young_one() -> None:
    young, old = begun("ErrImagePull"), begun("ErrImagePull", "2026-01-31T11:00:00Z")

    assert startup_failure([young, old], {}, YOUNG)


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "RegistryUnavailable"])
def test_a_failed_pull_is_told_in_its_time_of_grace_with_its_end(reason: str) -> None:
    said = startup_news([begun(reason)], YOUNG)

    assert f"{reason}: m" in said
    assert "counts as failed from 12:00:20 UTC on" in said
    assert startup_news([begun(reason)], OLD) == ""


def unready(**status: Any) -> Manifest:
    """Return a pod whose container runs and is not ready."""
    state = {"running": {"startedAt": "2026-01-31T12:00:05Z"}}
    return pod(containerStatuses=[container(state=state, ready=False, **status)])


def test_a_container_that_runs_and_is_not_ready_is_told_with_what_it_lacks() -> None:
    plain, probed = unready(), unready()
    probed["spec"] = {"containers": [{"name": "main", "readinessProbe": {"tcpSocket": {}}}]}

    told = "The container runs since 12:00:05 UTC and is not ready"
    assert startup_news([plain], YOUNG) == f"{told}."
    assert startup_news([probed], YOUNG) == f"{told}: its readiness probe has not passed."
    assert startup_news([probed], OLD) == startup_news([probed], YOUNG)


def test_of_a_container_that_was_restarted_the_last_end_is_told() -> None:
    again = unready(lastState={"terminated": {"reason": "OOMKilled", "exitCode": 137}})

    assert startup_news([again], OLD).endswith("Its last run ended: OOMKilled (exit code 137)")


def test_of_pods_that_are_ready_or_going_nothing_is_told() -> None:
    ready = pod(containerStatuses=[container(state={"running": {}}, ready=True)])
    going = begun("ErrImagePull")
    going["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:01Z"

    assert startup_news([ready, going, {}], YOUNG) == ""


def test_an_init_container_counts() -> None:
    broken = pod(
        initContainerStatuses=[
            {"name": "init", "state": {"waiting": {"reason": "ErrImagePull", "message": "m"}}}
        ]
    )

    assert "container init: ErrImagePull: m" in why(broken)


def test_unschedulable_is_said_in_the_schedulers_words() -> None:
    words = "0/8 nodes are available: 1 Insufficient nvidia.com/gpu."

    assert words in why(unschedulable(words))


def test_a_quota_that_refuses_pods_is_said() -> None:
    words = 'pods "x" is forbidden: exceeded quota: q'

    assert words in why(deployment=refused(words))


@pytest.mark.parametrize(
    "words",
    [
        'pods "x" is forbidden: exceeded quota: q, requested: memory=1Gi, limited: memory=1Gi',
        'pods "x" is forbidden: failed quota: q: must specify memory',
        'pods "x" is forbidden: looking up service account a/b: serviceaccount "b" not found',
        'admission webhook "policy.example.com" denied the request: no',
    ],
)
def test_why_no_pod_was_made_is_said(words: str) -> None:
    assert words in why(deployment=refused(words))


@pytest.mark.parametrize(
    "given", [{"pods": (unschedulable(None),)}, {"deployment": refused(None)}]
)
def test_a_message_that_is_missing_is_not_called_none(given: dict[str, Any]) -> None:
    text = startup_failure(given.get("pods", ()), given.get("deployment", {}))

    assert text
    assert "None" not in text


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({"reason": "Evicted", "message": "The node was low on resource"}, "low on resource"),
        ({"reason": "UnexpectedAdmissionError"}, "UnexpectedAdmissionError"),
        ({}, "failed"),
    ],
)
def test_a_pod_that_failed_as_a_whole_is_told(status: dict[str, Any], words: str) -> None:
    assert words in why(pod(phase="Failed", **status))


def test_why_a_pod_was_evicted_says_more_than_how_its_containers_died() -> None:
    killed = {"name": "main", "state": {"terminated": {"exitCode": 137, "reason": "Error"}}}
    status = {"reason": "Evicted", "message": "The node was low on resource: memory."}

    text = why(pod(phase="Failed", containerStatuses=[killed], **status))

    assert "low on resource" in text
    assert "137" in why(pod(phase="Failed", containerStatuses=[killed]))


def test_a_pod_that_is_being_deleted_belongs_to_the_past() -> None:
    old = waiting_pod("ErrImagePull", "gone")
    old["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"

    assert why(old) == ""


def test_a_container_says_more_than_the_scheduler_and_that_more_than_the_deployment() -> None:
    broken, waiting = waiting_pod("ErrImagePull", "pull"), unschedulable("no GPU")
    deployment = refused("quota")

    assert "pull" in why(waiting, broken, deployment=deployment)
    assert "no GPU" in why(waiting, deployment=deployment)


def test_a_text_without_end_is_cut() -> None:
    assert len(why(waiting_pod("ErrImagePull", "x" * 100_000))) <= 1000


def test_a_text_has_no_character_that_the_database_refuses() -> None:
    text = why(crashed(reason="Error", exitCode=1, message="a\x00b"))

    assert "\x00" not in text
    assert "a" in text


@pytest.mark.parametrize("junk", [None, 1, "x", [], {"status": None}, {"status": {"a": 1}}])
def test_reading_junk_gives_nothing(junk: Any) -> None:
    assert field(junk, "status", "conditions") is None
    assert number(junk, "status", "replicas") == 0
    assert items(junk, "status", "conditions") == []
    assert condition(junk, "Ready") == {}


@pytest.mark.parametrize("value", [True, "2", 1.5, None])
def test_only_an_integer_is_a_number(value: object) -> None:
    assert number({"replicas": value}, "replicas") == 0
