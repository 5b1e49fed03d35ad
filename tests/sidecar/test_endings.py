"""Outcomes of invocations, as the sidecar reports them for each behavior of a function."""

import json
from datetime import timedelta

import pytest

from gpuplatform.clock import now
from gpuplatform.dev.embedded.ports import free_port
from gpuplatform.dev.embedded.processes import wait_until
from serverless.queue.messages import MAX_RESULT_BYTES, decode_advisory
from serverless.queue.names import ADVISORIES, ADVISORY_CONSUMER
from tests.sidecar.rig import FUNCTION, TENANT, Rig

pytestmark = pytest.mark.processes


def is_empty(rig: Rig) -> bool:
    return rig.messages() == [] and rig.backlog().total == 0


def test_response_is_reported_once_and_message_acknowledged(rig: Rig) -> None:
    rig.worker()

    key = rig.invoke(text="hello")

    found = rig.finished(key)
    assert (found.state, found.status_code, found.attempt) == ("Succeeded", 200, 1)
    assert json.loads(found.body) == {"text": "hello"}
    assert found.content_type == "application/json"
    assert found.headers["x-seen-id"] == f"inv-{key}"
    assert found.receipt == f"receipt-{key}"
    assert found.worker.startswith(f"fn-{FUNCTION}-")
    assert found.started_at <= found.completed_at
    assert wait_until(lambda: is_empty(rig), 5)
    rig.read_reports()
    assert len(rig.all_finished(key)) == 1


def test_function_on_tcp_port_is_called_with_query(rig: Rig) -> None:
    port, path = free_port(), "/v1/chat?model=a%2Fb&x=1+2"
    rig.tcp_function(port)
    address = {"FRAMEWORK_PORT": str(port), "INVOKE_PATH": path, "HEALTH_PATH": "/health"}
    rig.sidecar(**address).until_ready()

    found = rig.finished(rig.invoke(text="hello"))

    assert (found.state, found.body.decode()) == ("Succeeded", f"POST {path}")


@pytest.mark.parametrize("method", ["PUT", "GET"])
def test_function_is_called_with_its_method(method: str, rig: Rig) -> None:
    port = free_port()
    rig.tcp_function(port)
    address = {"FRAMEWORK_PORT": str(port), "INVOKE_METHOD": method, "INVOKE_PATH": "/predict"}
    rig.sidecar(**address, HEALTH_PATH="/health").until_ready()

    found = rig.finished(rig.invoke(text="hello"))

    assert (found.state, found.body.decode()) == ("Succeeded", f"{method} /predict")


def test_stream_of_tokens_is_stored_as_a_whole(rig: Rig) -> None:
    port = free_port()
    rig.tcp_function(port)
    rig.sidecar(FRAMEWORK_PORT=str(port), HEALTH_PATH="/health").until_ready()
    tokens = [f"token {number}" for number in range(20)]

    found = rig.finished(rig.invoke(tokens=tokens))

    events = found.body.decode().split("\n\n")
    assert (found.state, found.content_type, found.truncated) == (
        "Succeeded",
        "text/event-stream",
        False,
    )
    assert [json.loads(one.removeprefix("data: "))["text"] for one in events[:-2]] == tokens
    assert events[-2:] == ["data: [DONE]", ""]


def test_stream_that_breaks_off_is_retried_and_fails(rig: Rig) -> None:
    port = free_port()
    rig.tcp_function(port)
    rig.sidecar(FRAMEWORK_PORT=str(port), HEALTH_PATH="/health").until_ready()

    found = rig.finished(rig.invoke(tokens=["a"], broken=True))

    assert (found.state, found.failure_class, found.attempt) == ("Failed", "framework_error", 3)


def test_function_that_loads_receives_nothing_until_it_is_healthy(rig: Rig) -> None:
    port = free_port()
    rig.tcp_function(port, LOAD_SECONDS="3")
    sidecar = rig.sidecar(FRAMEWORK_PORT=str(port), HEALTH_PATH="/health")
    key = rig.invoke(text="hello")

    found = rig.finished(key)

    assert (found.state, found.attempt) == ("Succeeded", 1)
    sidecar.until_ready()


def test_start_of_slow_or_repeated_invocation_is_reported(rig: Rig) -> None:
    rig.worker()

    held = rig.invoke(hold=str(fifo := rig.fifo()), timeout=60)
    rig.started(held)
    rig.release(fifo)
    rig.finished(held)
    again = rig.invoke(status=500)

    assert rig.finished(again).attempt == 3
    assert [rig.started(again, attempt).attempt for attempt in (1, 2, 3)] == [1, 2, 3]


def test_status_500_is_retried_and_fails(rig: Rig) -> None:
    rig.worker()

    key = rig.invoke(status=500)

    found = rig.finished(key)
    assert (found.state, found.failure_class) == ("Failed", "framework_error")
    assert (found.status_code, found.attempt) == (500, 3)
    assert json.loads(found.body) == {"status": 500}
    assert "status 500" in found.error
    assert wait_until(lambda: is_empty(rig), 5)


def test_status_422_is_not_retried(rig: Rig) -> None:
    rig.worker()

    found = rig.finished(rig.invoke(status=422))

    assert (found.state, found.failure_class) == ("Failed", "framework_error")
    assert (found.status_code, found.attempt) == (422, 1)


def test_raising_handler_is_status_500_with_message(rig: Rig) -> None:
    rig.consume(max_deliver=1)
    rig.worker(MAX_DELIVER="1")

    found = rig.finished(rig.invoke(words="no such model"))

    assert (found.state, found.status_code) == ("Failed", 500)
    assert b"RuntimeError: no such model" in found.body


def test_hanging_function_times_out(rig: Rig) -> None:
    rig.worker()

    key = rig.invoke(hold=str(rig.fifo()), timeout=1)

    found = rig.finished(key)
    assert (found.state, found.failure_class) == ("Expired", "framework_timeout")
    assert "within 1 second." in found.error
    assert (found.completed_at - found.started_at).total_seconds() < 2
    assert wait_until(lambda: is_empty(rig), 5)


def test_expired_invocation_is_not_started(rig: Rig) -> None:
    rig.worker()

    late = rig.finished(rig.invoke_until(now() - timedelta(seconds=1)))
    soon = rig.finished(rig.invoke_until(now() + timedelta(hours=1)))
    confirmed = rig.finished(rig.invoke_until(now() - timedelta(seconds=1), publication=2))

    assert (late.state, late.failure_class) == ("Expired", "queue_timeout")
    assert (late.status_code, late.body) == (None, b"")
    assert [soon.state, confirmed.state] == ["Succeeded", "Succeeded"]
    assert wait_until(lambda: is_empty(rig), 5)


def test_crashed_function_is_retried_after_restart(rig: Rig) -> None:
    sidecar, function = rig.worker(MAX_DELIVER="2")
    rig.consume(max_deliver=2)

    key = rig.invoke(die=True)

    rig.started(key)
    assert function.wait(10) == 3
    assert wait_until(lambda: sidecar.get("/readyz") == 503, 10)
    rig.function()
    found = rig.finished(key)
    assert (found.state, found.failure_class) == ("Failed", "framework_error")
    assert (found.status_code, found.attempt) == (None, 2)


def test_response_of_100_megabytes_is_failure(rig: Rig) -> None:
    sidecar, _ = rig.worker()
    before = memory(sidecar.process.pid)

    found = rig.finished(rig.invoke(size=100_000_000))

    assert (found.state, found.failure_class) == ("Failed", "result_too_large")
    assert (found.attempt, found.status_code) == (1, 200)
    assert (len(found.body), found.size) == (MAX_RESULT_BYTES, 100_000_000)
    assert found.truncated
    assert memory(sidecar.process.pid) - before < 30_000


def test_response_of_maximum_size_succeeds(rig: Rig) -> None:
    rig.worker()

    found = rig.finished(rig.invoke(size=MAX_RESULT_BYTES))

    assert (found.state, len(found.body)) == ("Succeeded", MAX_RESULT_BYTES)


def test_large_response_with_error_keeps_its_failure_class(rig: Rig) -> None:
    rig.worker()

    found = rig.finished(rig.invoke(size=MAX_RESULT_BYTES + 1, status=422))

    assert (found.state, found.failure_class) == ("Failed", "framework_error")
    assert found.truncated


def memory(pid: int) -> int:
    """Return the peak memory of the process, in kB."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:  # noqa: PTH123 - not a file
        line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1])


def test_malformed_message_is_rejected_with_reason(rig: Rig) -> None:
    rig.worker()

    rig.queue.call(lambda js: js.publish(f"gpu.invoke.{TENANT}.{FUNCTION}", b"?"))

    [delivery] = rig.queue.fetch(ADVISORIES, ADVISORY_CONSUMER, 1, 10)
    advisory = decode_advisory(delivery.data)
    assert advisory.was_terminated
    assert "X-Headers" in advisory.reason
    assert wait_until(lambda: is_empty(rig), 5)


def test_crashing_invocation_does_not_affect_others(rig: Rig) -> None:
    rig.worker()

    keys = [rig.invoke(status=500) if number == 3 else rig.invoke() for number in range(10)]

    good = [rig.finished(key) for number, key in enumerate(keys) if number != 3]
    assert {(one.state, one.attempt) for one in good} == {("Succeeded", 1)}
    assert rig.all_finished(keys[3]) == []
    assert rig.finished(keys[3]).attempt == 3
