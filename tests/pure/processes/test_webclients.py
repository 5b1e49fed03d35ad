"""Connections that wait for slow clients are closed; the others are not."""

import pytest

from gpuplatform.processes.webclients import SECONDS, Clients, Wait


class FakeClient:
    """A connection that stores why it was closed."""

    def __init__(self, *, has_begun: bool = False) -> None:
        self.closed: Wait | None = None
        self._has_begun = has_begun

    def has_begun(self) -> bool:
        return self._has_begun

    def end_wait(self, wait: Wait) -> None:
        self.closed = wait


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def joined(clients: Clients, wait: Wait = Wait.HEAD, size: int = 0) -> FakeClient:
    client = FakeClient()
    clients.join(client)
    clients.begin(client, wait, size)
    return client


@pytest.mark.parametrize("wait", SECONDS)
def test_a_wait_for_a_client_has_a_time_limit(clock: Clock, wait: Wait) -> None:
    clients = Clients(10, clock=clock)
    client = joined(clients, wait)

    clock.now = SECONDS[wait]
    clients.close_late()
    assert client.closed is None

    clock.now += 0.1
    clients.close_late()
    assert client.closed is wait
    assert len(clients) == 0


def test_a_client_that_waits_for_its_response_is_not_closed(clock: Clock) -> None:
    clients = Clients(1, clock=clock)
    client = joined(clients, Wait.RESPONSE)

    clock.now = 1e6
    clients.close_late()
    newer = joined(clients)

    assert client.closed is None
    assert newer.closed is Wait.HEAD


def test_beyond_the_limit_the_connection_that_waited_longest_is_closed(clock: Clock) -> None:
    clients = Clients(2, clock=clock)
    first, second = joined(clients), joined(clients)
    clients.begin(first, Wait.BODY)

    third = joined(clients)

    assert [one.closed for one in (first, second, third)] == [None, Wait.HEAD, None]


def test_beyond_the_limit_on_bytes_the_slowest_body_is_refused(clock: Clock) -> None:
    clients = Clients(10, max_bytes=100, clock=clock)
    slow, quick = joined(clients, Wait.BODY), joined(clients, Wait.BODY)
    clients.hold(slow, 60)

    clients.hold(quick, 50)

    assert (slow.closed, quick.closed) == (Wait.BODY, None)
    assert clients.size == 50
    clients.begin(quick, Wait.HEAD)
    assert clients.size == 0


def test_a_closed_connection_does_not_return(clock: Clock) -> None:
    clients = Clients(10, clock=clock)
    client = joined(clients)
    clients.leave(client)

    clients.begin(client, Wait.READER, 5)
    clients.hold(client, 5)

    assert (len(clients), clients.size) == (0, 0)


def test_idle_connections_are_closed_and_started_requests_are_not(clock: Clock) -> None:
    clients = Clients(10, clock=clock)
    idle, begun = FakeClient(), FakeClient(has_begun=True)
    for one in (idle, begun):
        clients.join(one)
    running = joined(clients, Wait.RESPONSE)

    clients.close_idle()

    assert [one.closed for one in (idle, begun, running)] == [Wait.HEAD, None, None]
