"""The counters of requests, in the broker and in this process."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence

import pytest
import redis
from pytest_django import Settings

from gpuplatform.dev.embedded.ports import free_port
from gpuplatform.health import HealthCode, rates_health
from gpuplatform.rates import counters
from gpuplatform.rates.counters import (
    COUNTERS,
    PAUSE_SECONDS,
    Counter,
    Counters,
    OwnCounter,
    SharedCounter,
)
from gpuplatform.rates.windows import Charge, Decision, Rate
from tests.fakes.installed import Broker, broker
from tests.fakes.rates import Clock, WholeCounter, clock
from tests.fakes.threads import at_once

__all__ = ["broker", "clock"]
TOKEN = Charge(Rate("token-writes", quota=10, seconds=5), "1")
OTHER_TOKEN = Charge(TOKEN.rate, "2")
TENANT = Charge(Rate("tenant-writes", quota=16, seconds=5), "1")


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker on a busy machine responds later than in production."""
    monkeypatch.setattr(counters, "BROKER_SECONDS", 30.0)


@pytest.fixture(params=["broker", "process"])
def counter(request: pytest.FixtureRequest, broker: Broker, clock: Clock) -> Counter:
    return SharedCounter() if request.param == "broker" else WholeCounter()


@pytest.fixture
def pass_time(
    request: pytest.FixtureRequest, settings: Settings, clock: Clock
) -> Iterator[Callable[[float], None]]:
    """Let time pass: the broker knows it only as the remaining time of its keys."""
    client = redis.Redis.from_url(settings.CELERY_BROKER_URL)

    def passed(seconds: float) -> None:
        clock.seconds += seconds
        for key in client.keys("rates:*"):
            client.pexpire(key, int(client.pttl(key)) - int(seconds * 1000))

    yield passed
    client.close()


def allowed(counter: Counter, *charges: Charge, times: int = 30) -> int:
    """Return the number of allowed requests until the first one that is not."""
    for number in range(times):
        if not counter.take(charges).is_allowed:
            return number
    return times


def test_a_burst_is_allowed_at_once_and_then_nothing(counter: Counter) -> None:
    assert allowed(counter, TOKEN) == 10
    assert allowed(counter, TOKEN) == 0
    assert allowed(counter, OTHER_TOKEN) == 10


def test_the_rate_refills(counter: Counter, pass_time: Callable[[float], None]) -> None:
    assert allowed(counter, TOKEN) == 10

    pass_time(5.25)
    assert allowed(counter, TOKEN) == 1, "nine of ten count after five percent of a period"
    pass_time(2)
    assert allowed(counter, TOKEN) == 4, "five of ten count after half of it"
    pass_time(12)
    assert allowed(counter, TOKEN) == 10


def test_the_seconds_of_a_rejection_are_enough(
    counter: Counter, pass_time: Callable[[float], None]
) -> None:
    assert allowed(counter, TOKEN) == 10
    rejected = counter.take([TOKEN])

    pass_time(rejected.retry_after + 0.01)
    assert 1 <= rejected.retry_after <= 5
    assert counter.take([TOKEN]).is_allowed


def test_tokens_share_only_the_rate_of_their_tenant(counter: Counter) -> None:
    assert allowed(counter, TOKEN, TENANT) == 10
    assert allowed(counter, OTHER_TOKEN, TENANT) == 6


def test_a_rejected_request_counts_for_no_rate(counter: Counter) -> None:
    assert allowed(counter, TOKEN, TENANT) == 10
    for _ in range(20):
        assert not counter.take([TOKEN, TENANT]).is_allowed

    rejected = counter.take([TOKEN, TENANT])
    assert [one.remaining for one in rejected.standings] == [0, 6]


@pytest.mark.django_db(transaction=True)
def test_concurrent_requests_are_counted_exactly(broker: Broker) -> None:
    counter = SharedCounter()

    results = at_once([lambda: counter.take([TOKEN]).is_allowed] * 25)

    assert (results.count(True), results.count(False)) == (10, 15)


ANOTHER_PROCESS = """
import django
django.setup()
from gpuplatform.rates.counters import COUNTERS
from gpuplatform.rates.windows import Charge, Rate
charge = Charge(Rate("token-writes", quota=10, seconds=50), "1")
print([COUNTERS.get().take([charge]).is_allowed for _ in range(7)].count(True))
"""


def test_two_processes_share_a_rate(broker: Broker, settings: Settings) -> None:
    charge = Charge(Rate("token-writes", quota=10, seconds=50), "1")
    assert [SharedCounter().take([charge]).is_allowed for _ in range(7)] == [True] * 7

    environment = {
        "DJANGO_SETTINGS_MODULE": "gpuplatform.settings",
        "REDIS_URL": settings.CELERY_BROKER_URL,
    }
    done = subprocess.run(
        [sys.executable, "-c", ANOTHER_PROCESS],
        env=os.environ | environment,
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )

    assert done.stdout.strip() == "3"


def test_a_call_is_one_command(broker: Broker, settings: Settings) -> None:
    counter = SharedCounter()
    counter.take([TOKEN, TENANT])  # Loads the script.
    with redis.Redis.from_url(settings.CELERY_BROKER_URL) as client:
        before = client.info("commandstats")
        counter.take([TOKEN, TENANT])
        after = client.info("commandstats")
    calls = {
        name: after[name]["calls"] - before.get(name, {"calls": 0})["calls"]
        for name in after
        if name in {"cmdstat_evalsha", "cmdstat_eval", "cmdstat_script|exists"}
    }

    assert calls == {"cmdstat_evalsha": 1, **{name: 0 for name in calls if "sha" not in name}}


class Switch:
    """A counter of the broker, which can be away."""

    def __init__(self) -> None:
        self.shared = SharedCounter()
        self.is_away = False
        self.calls = 0

    def take(self, charges: Sequence[Charge]) -> Decision:
        self.calls += 1
        if self.is_away:
            raise redis.ConnectionError
        return self.shared.take(charges)


def test_without_the_broker_a_process_allows_half_and_calls_it_once(
    broker: Broker, clock: Clock
) -> None:
    switch = Switch()
    both = Counters(switch, OwnCounter())
    switch.is_away = True

    assert allowed(both, TOKEN) == 5
    assert (switch.calls, both.is_degraded) == (1, True)

    clock.seconds += PAUSE_SECONDS + 1
    assert not both.is_degraded
    assert both.take([OTHER_TOKEN]).standings[0].rate.quota == 5
    assert both.take([OTHER_TOKEN]).standings[0].rate.quota == 5
    assert (switch.calls, both.is_degraded) == (2, True)

    clock.seconds += PAUSE_SECONDS + 1
    switch.is_away = False
    assert allowed(both, TOKEN) == 10
    assert (switch.calls, both.is_degraded) == (13, False)


class Asking:
    """A counter of the broker that is away, during whose calls another request is counted."""

    def __init__(self) -> None:
        self.other: Callable[[], object] = lambda: None
        self.calls = 0

    def take(self, charges: Sequence[Charge]) -> Decision:
        self.calls += 1
        self.other()
        raise redis.ConnectionError


def test_a_request_during_the_call_after_a_pause_does_not_call_the_broker(clock: Clock) -> None:
    asking = Asking()
    both = Counters(asking, OwnCounter())
    both.take([TOKEN])
    clock.seconds += PAUSE_SECONDS + 1
    asking.other = lambda: both.take([TOKEN]) if asking.calls < 5 else None

    both.take([TOKEN])

    assert asking.calls == 2


@pytest.mark.django_db(transaction=True)
def test_concurrent_requests_are_counted_exactly_by_a_process() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _round in range(20):
            counter = OwnCounter()
            jobs = [lambda own=counter: own.take([TOKEN]).is_allowed] * 25

            assert at_once(jobs).count(True) == 5
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.django_db(transaction=True)
def test_after_a_pause_only_one_request_tries_the_broker(broker: Broker, clock: Clock) -> None:
    switch = Switch()
    both = Counters(switch, OwnCounter())
    switch.is_away = True
    both.take([TOKEN])
    clock.seconds += PAUSE_SECONDS + 1

    at_once([lambda: both.take([TOKEN])] * 8)

    assert switch.calls == 2


def test_a_broker_that_hangs_is_called_once(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counters, "BROKER_SECONDS", 0.25)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings.CELERY_BROKER_URL = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        both = Counters(SharedCounter(), OwnCounter())

        assert allowed(both, TOKEN) == 5

        silent.settimeout(0)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()


def test_the_health_is_degraded_but_not_failing(settings: Settings) -> None:
    settings.CELERY_BROKER_URL = f"redis://127.0.0.1:{free_port()}/0"
    COUNTERS.reset()
    assert rates_health().code is HealthCode.HEALTHY

    COUNTERS.get().take([TOKEN])

    degraded = rates_health()
    COUNTERS.reset()
    assert (degraded.code, degraded.ok) == (HealthCode.DEGRADED, True)
