"""/livez on the metrics port: a process is alive while its main loop runs."""

import http.client
from collections.abc import Callable

import pytest

from gpuplatform.metrics.server import LIVE_PATH, PATH, MetricsPort
from gpuplatform.processes import worker
from gpuplatform.processes.worker import MainLoop


def no_database() -> bytes:
    raise AssertionError("/livez reads no metrics")


def served(is_alive: Callable[[], bool]) -> int:
    """Serve on a free port; the thread ends with the tests."""
    opened = MetricsPort("127.0.0.1", 0)
    opened.serve(no_database, is_alive)
    return opened.number


def get(port: int, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_a_process_is_alive_although_its_metrics_cannot_be_read() -> None:
    port = served(lambda: True)
    with pytest.raises(http.client.HTTPException):
        get(port, PATH)

    assert get(port, LIVE_PATH) == (200, b"ok\n")


def test_a_process_whose_main_loop_is_stuck_is_not_alive() -> None:
    assert get(served(lambda: False), LIVE_PATH)[0] == 503


def test_other_paths_are_not_found() -> None:
    assert get(served(lambda: True), "/")[0] == 404


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic time of the worker, as the only item."""
    now = [1000.0]
    monkeypatch.setattr("gpuplatform.processes.worker.time.monotonic", lambda: now[0])
    return now


def test_a_loop_that_does_not_tick_is_stuck_after_the_limit(clock: list[float]) -> None:
    loop = MainLoop()

    clock[0] += worker.STALLED_SECONDS - 1
    assert loop.is_running()
    clock[0] += 2
    assert not loop.is_running()

    loop.tick()
    assert loop.is_running()


def test_a_loop_that_waits_for_the_broker_is_not_stuck(clock: list[float]) -> None:
    loop = MainLoop()

    loop.connecting()
    clock[0] += 10 * worker.STALLED_SECONDS

    assert loop.is_running()
