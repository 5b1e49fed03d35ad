"""Logs of simulated containers, and the errors of a real server for missing ones."""

from typing import Any

import pytest

from gpuplatform.dev.simulator.apiserver.errors import ApiError
from gpuplatform.dev.simulator.apiserver.logs import pod_log

STARTED = "2026-01-31T12:00:00Z"
ENDED = {"startedAt": STARTED, "finishedAt": STARTED, "exitCode": 3, "reason": "Error"}


def pod(state: dict[str, Any], *, last: dict[str, Any] | None = None) -> dict[str, Any]:
    status = {"name": "worker", "state": state, **({"lastState": last} if last else {})}
    return {
        "metadata": {"name": "p"},
        "spec": {"nodeName": "n", "containers": [{"name": "worker"}]},
        "status": {"containerStatuses": [status]},
    }


def read(of: dict[str, Any], **query: str) -> str:
    return pod_log(of, query).decode()


def test_the_log_of_a_running_container_starts_with_its_start() -> None:
    assert read(pod({"running": {"startedAt": STARTED}})).startswith(STARTED)


def test_the_log_of_an_ended_container_has_its_exit_code() -> None:
    assert "Ended with exit code 3 (Error)." in read(pod({"terminated": ENDED}))


def test_a_crashed_container_has_the_log_of_its_last_run() -> None:
    crashed = pod({"waiting": {"reason": "CrashLoopBackOff"}}, last={"terminated": ENDED})

    assert "Ended with exit code 3" in read(crashed)
    assert "Ended with exit code 3" in read(crashed, previous="true")


def test_a_log_is_limited_by_lines_and_bytes() -> None:
    ended = pod({"terminated": ENDED})

    assert read(ended, tailLines="1").count("\n") == 1
    assert "Ended" in read(ended, tailLines="1")
    assert read(ended, tailLines="0") == ""
    assert len(read(ended, limitBytes="5")) == 5


@pytest.mark.parametrize(
    ("of", "query", "message"),
    [
        (pod({"waiting": {}}), {}, "is waiting to start: ContainerCreating"),
        (pod({"waiting": {"reason": "ErrImagePull"}}), {}, "trying and failing to pull image"),
        (pod({"running": {}}), {"previous": "true"}, "previous terminated container"),
        (pod({"running": {}}), {"container": "other"}, "container other is not valid for pod p"),
        (pod({"running": {}}), {"tailLines": "x"}, "is not a number"),
        ({**pod({}), "spec": {"containers": [{"name": "worker"}]}}, {}, "have a host assigned"),
        ({**pod({}), "spec": {"containers": [{"name": "a"}, {"name": "b"}]}}, {}, "[a b]"),
    ],
    ids=["creating", "pull", "previous", "container", "number", "host", "many"],
)
def test_a_missing_log_is_a_bad_request(
    of: dict[str, Any], query: dict[str, str], message: str
) -> None:
    with pytest.raises(ApiError) as refused:
        pod_log(of, query)

    assert refused.value.code == 400
    assert message in str(refused.value)
