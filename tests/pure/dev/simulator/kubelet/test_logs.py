"""Logs of simulated containers, and the errors of a kubelet for missing ones."""

from pathlib import Path
from typing import Any

import pytest

from gpuplatform.dev.simulator.kubelet.logs import LogQuery, NoLogError, excerpt, log_of, run_of

STARTED = "2026-01-31T12:00:00Z"
ENDED = {"startedAt": STARTED, "finishedAt": STARTED, "exitCode": 3, "reason": "Error"}
RUNNING = {"running": {"startedAt": STARTED}}


def pod(
    state: dict[str, Any], *command: str, last: dict[str, Any] | None = None, restarts: int = 0
) -> dict[str, Any]:
    status = {"name": "main", "state": state, "restartCount": restarts}
    container = {"name": "main", "command": list(command)}
    return {
        "metadata": {"name": "p"},
        "spec": {"nodeName": "n", "containers": [container]},
        "status": {"containerStatuses": [{**status, "lastState": last or {}}]},
    }


def read(of: dict[str, Any], path: Path | None = None, **query: str) -> str:
    return select(of, query, path)


def select(of: dict[str, Any], query: dict[str, str], path: Path | None = None) -> str:
    parsed = LogQuery.of(query)
    run = run_of(of, "main", is_previous=parsed.is_previous)
    return excerpt(log_of(of, "main", run, path), run, parsed).decode()


def test_the_log_of_a_script_is_its_output() -> None:
    assert read(pod(RUNNING, "sh", "-c", "echo a; echo b; sleep infinity")) == "a\nb\n"


def test_the_log_of_an_unknown_program_starts_with_its_start() -> None:
    assert read(pod(RUNNING)).startswith(STARTED)


def test_the_log_of_an_ended_program_has_its_exit_code() -> None:
    assert "Ended with exit code 3 (Error)." in read(pod({"terminated": ENDED}))


def test_the_log_of_a_process_is_its_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("ready\n")

    assert read(pod(RUNNING), path) == "ready\n"


def test_a_crashed_container_has_the_log_of_its_last_run() -> None:
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    crashed = pod(waiting, last={"terminated": ENDED}, restarts=2)
    restarted = pod(RUNNING, last={"terminated": ENDED}, restarts=2)

    assert [run_of(crashed, "main", is_previous=one).number for one in (False, True)] == [2, 2]
    assert [run_of(restarted, "main", is_previous=one).number for one in (False, True)] == [2, 1]
    assert "Ended with exit code 3" in read(crashed, previous="true")


def test_a_log_is_limited() -> None:
    found = pod(RUNNING, "sh", "-c", "echo one; echo two; serve")

    assert read(found, tailLines="1") == "two\n"
    assert read(found, tailLines="0") == ""
    assert read(found, limitBytes="5") == "one\nt"
    assert read(found, sinceTime="2026-01-31T12:00:01Z") == ""
    assert read(found, sinceTime="2026-01-31T12:00:00Z") == "one\ntwo\n"
    assert read(found, sinceSeconds="1") == ""
    assert read(found, timestamps="true", tailLines="1") == "2026-01-31T12:00:00.000000000Z two\n"


@pytest.mark.parametrize(
    ("of", "query", "message"),
    [
        (pod({"waiting": {}}), {}, "is waiting to start: "),
        (pod({}), {}, "is waiting to start: ContainerCreating"),
        (pod({"waiting": {"reason": "ErrImagePull"}}), {}, "image can't be pulled"),
        (pod({"waiting": {"reason": "ImagePullBackOff"}}), {}, "trying and failing to pull image"),
        (pod(RUNNING), {"previous": "true"}, "previous terminated container"),
        ({**pod({}), "status": {}}, {}, 'container "main" in pod "p" is not available'),
    ],
    ids=["waiting", "creating", "pull", "back-off", "previous", "status"],
)
def test_a_missing_log_is_an_error(
    of: dict[str, Any], query: dict[str, str], message: str
) -> None:
    with pytest.raises(NoLogError) as missing:
        select(of, query)

    assert message in str(missing.value)
