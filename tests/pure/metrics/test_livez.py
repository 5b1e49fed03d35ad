"""Beside the metrics a process says that it lives, and asks nobody for it."""

import http.client

import pytest

from gpuplatform.metrics.server import LIVE_PATH, PATH, MetricsPort


def no_database() -> bytes:
    raise AssertionError("nobody is to be asked")


@pytest.fixture(scope="module")
def port() -> int:
    """The port of a process whose metrics cannot be read; its thread ends with the tests."""
    opened = MetricsPort("127.0.0.1", 0)
    opened.serve(no_database)
    return opened.number


def get(port: int, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_a_process_lives_whatever_its_metrics_say(port: int) -> None:
    with pytest.raises(http.client.HTTPException):
        get(port, PATH)

    assert get(port, LIVE_PATH) == (200, b"ok\n")


def test_a_process_whose_main_loop_is_stuck_is_not_alive() -> None:
    opened = MetricsPort("127.0.0.1", 0)
    opened.serve(no_database, lambda: False)

    assert get(opened.number, LIVE_PATH)[0] == 503


def test_other_addresses_are_not_there(port: int) -> None:
    assert get(port, "/")[0] == 404
