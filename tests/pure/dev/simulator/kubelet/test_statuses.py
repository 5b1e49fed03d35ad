"""Odd statuses of pods, which every client with the permission can write."""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpuplatform.dev.simulator.kubelet.containers import Timing
from gpuplatform.dev.simulator.kubelet.echo import runs_echo
from gpuplatform.dev.simulator.kubelet.logs import NoLogError, log_of, run_of
from gpuplatform.dev.simulator.kubelet.options import GPU
from gpuplatform.dev.simulator.kubelet.pods import NodeContext, PodHistory, step
from gpuplatform.dev.simulator.kubelet.programs import running_programs
from gpuplatform.dev.simulator.kubelet.statuses import container_statuses, is_running
from gpuplatform.dev.simulator.kubelet.texts import timestamp

START = 1_800_000_000.0
KEYS = (
    *("name", "state", "lastState", "running", "terminated", "waiting", "reason", "exitCode"),
    *("startedAt", "finishedAt", "restartCount", "ready", "type", "status", "containerID"),
    *("containerStatuses", "conditions", "phase", "podIP", "startTime", "lastTransitionTime"),
)
SCALARS = (None, True, False, 0, -1, 10**9, "", "main", "Ready", "Running", "CrashLoopBackOff")
TIMES = ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00", "2026-01-31T12:00:00Z", "never")
VALUES = st.recursive(
    st.sampled_from((*SCALARS, *TIMES)),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=12,
)
STATUSES = st.fixed_dictionaries(
    {},
    optional={
        "phase": st.sampled_from(("Pending", "Running", "Failed", "", None, 1)),
        "containerStatuses": VALUES | st.lists(st.fixed_dictionaries({"name": st.just("main")})),
        "conditions": VALUES,
        "podIP": VALUES,
        "startTime": VALUES,
    },
)


def pod(status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "one", "namespace": "default", "uid": "u-1"},
        "spec": {"nodeName": "n", "containers": [{"name": "main", "image": "app:1"}]},
        "status": status,
    }


@given(status=STATUSES | VALUES)
def test_every_status_is_read(status: Any) -> None:
    found = pod(status)

    running = [name for name, one in container_statuses(found).items() if is_running(one)]

    assert set(running) <= {"main"}
    assert running_programs(found) == {}
    assert not runs_echo(found)
    try:
        log_of(found, "main", run_of(found, "main", is_previous=False), None)
    except NoLogError:
        assert not running


@given(status=STATUSES, is_deleted=st.booleans(), evict=st.booleans())
def test_a_restarted_kubelet_continues_from_every_status(
    status: Any, is_deleted: bool, evict: bool
) -> None:
    found, history = pod(status), PodHistory()
    context = NodeContext(
        "10.0.0.1", "10.1.0.1", Timing(1, 10), free_devices={GPU: 8}, evict=evict
    )
    if is_deleted:
        found["metadata"]["deletionTimestamp"] = timestamp(START)

    for second in range(0, 60, 5):
        taken = step(found, history, context, START + second)
        found["status"] = {**found["status"], **(taken.status or {})}

    ended = found["status"]["phase"] in {"Succeeded", "Failed"}
    assert ended or not (is_deleted or evict)
    assert ended or container_statuses(found)["main"]["state"]


@given(status=STATUSES)
def test_a_status_of_another_client_is_corrected(status: Any) -> None:
    found, history = pod({}), PodHistory()
    context = NodeContext("10.0.0.1", "10.1.0.1", Timing(0, 10), free_devices={GPU: 8})
    for second in (0, 1):
        taken = step(found, history, context, START + second)
        found["status"] = {**found["status"], **(taken.status or {})}
    correct = copy.deepcopy(found["status"])

    found["status"] = {**found["status"], **{k: v for k, v in status.items() if k != "phase"}}
    taken = step(found, history, context, START + 2)

    after = {**found["status"], **(taken.status or {})}
    for name in ("phase", "containerStatuses", "podIP"):
        assert after[name] == correct[name]
