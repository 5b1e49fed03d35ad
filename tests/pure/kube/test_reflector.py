import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from typing_extensions import override

from gpuplatform.errors import DatabaseUnavailable
from gpuplatform.kube.client import Listing
from gpuplatform.kube.kinds import CONFIG_MAP
from gpuplatform.kube.reflector import Reflector, Timings
from tests.fakes.scripted_server import (
    TEST_PATIENCE_SECONDS,
    Exchange,
    Script,
    ScriptedServer,
    scripted,
)

FAST = Timings(
    watch_seconds=(60, 60),
    silence_seconds=0.2,
    backoff_seconds=(0.01, 0.02),
    short_watch_seconds=0.1,
)


class Seen:
    """A consumer that records its calls, and lets a test wait for them."""

    def __init__(self) -> None:
        self.reported: list[str] = []
        self.fail_with: list[Exception] = []
        self._changed = threading.Condition()

    def on_list(self, listing: Listing) -> None:
        names = ",".join(item["metadata"]["name"] for item in listing.items)
        self._tell(f"list {listing.resource_version}: {names}")

    def on_event(self, kind: str, manifest: dict[str, Any]) -> None:
        self._tell(f"{kind} {manifest['metadata']['name']}")

    def _tell(self, what: str) -> None:
        with self._changed:
            self.reported.append(what)
            self._changed.notify_all()
        if self.fail_with:
            raise self.fail_with.pop(0)

    def wait_for(self, *expected: str) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: len(self.reported) >= len(expected), TEST_PATIENCE_SECONDS
            )
            assert self.reported[: len(expected)] == list(expected)


class Watches:
    """Responds to lists with numbered names, and to each watch with the next script."""

    def __init__(self, *watches: Script, lists: list[Script] | None = None) -> None:
        self._watches = iter(watches)
        self._lists = iter(lists or [])
        self.version = 0

    def __call__(self, exchange: Exchange) -> None:
        if exchange.is_watch:
            next(self._watches, silence)(exchange)
        elif (script := next(self._lists, None)) is not None:
            script(exchange)
        else:
            self.version += 10
            exchange.json(
                {
                    "metadata": {"resourceVersion": str(self.version)},
                    "items": [{"metadata": {"name": f"a{self.version}"}}],
                }
            )


def event(kind: str, name: str, version: int) -> dict[str, Any]:
    metadata = {"name": name, "resourceVersion": str(version)}
    return {"type": kind, "object": {"metadata": metadata}}


def events(*lines: dict[str, Any], then: Script | None = None) -> Script:
    def send(exchange: Exchange) -> None:
        exchange.stream()
        for line in lines:
            exchange.line(line)
        if then is not None:
            then(exchange)

    return send


def ended(exchange: Exchange) -> None:
    exchange.end_stream()


def held(exchange: Exchange) -> None:
    exchange.hold()


def silence(exchange: Exchange) -> None:
    exchange.stream()
    exchange.hold()


def answer(status: int, document: dict[str, Any], headers: dict[str, str] | None = None) -> Script:
    return lambda exchange: exchange.json(document, status, headers)


GONE = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}


@contextmanager
def reflecting(
    script: Script, seen: Seen, timings: Timings = FAST, **more: Any
) -> Iterator[tuple[Reflector, ScriptedServer]]:
    stop = threading.Event()
    with scripted(script) as server:
        reflector = Reflector(
            server.cluster(),
            CONFIG_MAP,
            on_list=seen.on_list,
            on_event=seen.on_event,
            namespace="n",
            timings=timings,
            **more,
        )
        thread = threading.Thread(target=reflector.run, args=(stop,))
        thread.start()
        try:
            yield reflector, server
        finally:
            stop.set()
            thread.join(TEST_PATIENCE_SECONDS)
            assert not thread.is_alive()


def test_list_comes_first_then_each_change() -> None:
    seen = Seen()
    script = Watches(
        events(event("ADDED", "b", 11), event("MODIFIED", "b", 12), event("DELETED", "b", 13))
    )

    with reflecting(script, seen) as (reflector, server):
        seen.wait_for("list 10: a10", "ADDED b", "MODIFIED b", "DELETED b")
        assert reflector.is_synced

    assert server.requests[1].query["resourceVersion"] == "10"


def test_watch_continues_from_its_last_version_without_a_list() -> None:
    seen = Seen()
    script = Watches(
        events(event("ADDED", "b", 11), event("BOOKMARK", "", 19), then=ended),
        events(event("ADDED", "c", 21), then=held),
    )

    with reflecting(script, seen) as (_, server):
        seen.wait_for("list 10: a10", "ADDED b", "ADDED c")

    assert [r.query.get("resourceVersion") for r in server.requests[:3]] == [None, "10", "19"]


def test_watch_of_bookmarks_alone_stays_alive() -> None:
    seen = Seen()
    script = Watches(
        events(event("BOOKMARK", "", 15), then=ended),
        events(event("BOOKMARK", "", 16), then=ended),
        events(event("ADDED", "b", 17), then=held),
    )

    with reflecting(script, seen):
        seen.wait_for("list 10: a10", "ADDED b")


def test_watch_that_ends_without_an_event_causes_a_new_list() -> None:
    def wordless(exchange: Exchange) -> None:
        exchange.stream()
        held_for = threading.Event()
        held_for.wait(0.12)
        exchange.end_stream()

    seen = Seen()

    with reflecting(Watches(wordless), seen):
        seen.wait_for("list 10: a10", "list 20: a20")


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(answer(410, GONE), id="410 instead of a watch"),
        pytest.param(events({"type": "ERROR", "object": GONE}), id="410 as an event"),
        pytest.param(silence, id="a peer that says nothing"),
        pytest.param(held, id="a peer that does not even answer"),
        pytest.param(events(), id="a connection cut at once"),
        pytest.param(events(then=lambda e: e.chunk(b"{bro\n")), id="a broken line"),
        pytest.param(events(then=lambda e: e.chunk(b'{"type"')), id="a cut line"),
        pytest.param(events(then=ended), id="a watch that ends at once"),
        pytest.param(answer(500, {}), id="500"),
        pytest.param(answer(403, {}), id="403"),
        pytest.param(answer(200, {}), id="no stream at all"),
    ],
)
def test_fault_of_a_watch_leads_to_a_list(fault: Script) -> None:
    seen = Seen()
    after = events(event("ADDED", "b", 21), then=held)

    with reflecting(Watches(fault, after), seen):
        seen.wait_for("list 10: a10", "list 20: a20", "ADDED b")


def test_connection_lost_after_events_causes_a_new_list() -> None:
    seen = Seen()
    script = Watches(events(event("ADDED", "b", 11)), events(event("ADDED", "c", 21), then=held))

    with reflecting(script, seen) as (reflector, _):
        seen.wait_for("list 10: a10", "ADDED b", "list 20: a20", "ADDED c")
        assert reflector.restarts == 1


def cut_page(exchange: Exchange) -> None:
    exchange.head(200, {"Content-Length": "1000"})
    exchange.write(b'{"metadata": {"resourceVersion": "1"}, "items": []}')


def second_page_fails(exchange: Exchange) -> None:
    more = {"metadata": {"resourceVersion": "1", "continue": "t"}, "items": []}
    exchange.json(more)


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(
            [answer(500, {"metadata": {}, "items": []})] * 3, id="an empty list with 500"
        ),
        pytest.param([cut_page], id="a truncated page"),
        pytest.param([second_page_fails, answer(500, {})], id="the second page fails"),
        pytest.param([answer(200, {"items": []})], id="a list without a version"),
        pytest.param([answer(404, {})], id="a kind that is not installed"),
        pytest.param([answer(410, GONE)] * 3, id="a list that expires"),
        pytest.param([lambda exchange: None], id="a cut connection"),
    ],
)
def test_failed_list_is_not_reported(faults: list[Script]) -> None:
    seen = Seen()

    with reflecting(Watches(lists=faults), seen):
        seen.wait_for("list 10: a10")


def test_a_complete_list_ends_the_failure() -> None:
    seen, was_failing = Seen(), []
    failing = answer(500, {})

    def failing_once(exchange: Exchange) -> None:
        was_failing.append(True)
        failing(exchange)

    with reflecting(Watches(held, lists=[failing_once]), seen) as (reflector, _):
        seen.wait_for("list 10: a10")
        assert was_failing
        assert not reflector.is_failing


def test_retry_after_is_respected() -> None:
    asked: list[float] = []
    busy = answer(429, {}, {"Retry-After": "0.3"})
    script = Watches(events(event("ADDED", "b", 11), then=held), lists=[busy])

    def timed(exchange: Exchange) -> None:
        asked.append(time.monotonic())
        script(exchange)

    seen = Seen()
    with reflecting(timed, seen):
        seen.wait_for("list 10: a10", "ADDED b")

    assert asked[1] - asked[0] >= 0.3


def test_retry_after_is_limited() -> None:
    busy = answer(429, {}, {"Retry-After": "1000000"})
    seen = Seen()
    timings = Timings(backoff_seconds=(0.01, 0.02), retry_after_seconds=0.05)

    with reflecting(Watches(lists=[busy]), seen, timings):
        seen.wait_for("list 10: a10")


@pytest.mark.parametrize("fault", [DatabaseUnavailable("x"), KeyError("x")])
def test_change_whose_consumer_failed_is_reported_again_by_a_list(fault: Exception) -> None:
    class Failing(Seen):
        @override
        def on_event(self, kind: str, manifest: dict[str, Any]) -> None:
            super().on_event(kind, manifest)
            raise fault

    seen = Failing()
    script = Watches(events(event("ADDED", "b", 11), then=held))

    with reflecting(script, seen, retry_on=(KeyError,)):
        seen.wait_for("list 10: a10", "ADDED b", "list 20: a20")


def test_list_whose_consumer_failed_is_reported_again() -> None:
    seen = Seen()
    seen.fail_with = [KeyError("a"), DatabaseUnavailable("b"), KeyError("c")]

    with reflecting(Watches(), seen, retry_on=(KeyError,)) as (reflector, _):
        seen.wait_for("list 10: a10", "list 20: a20", "list 30: a30", "list 40: a40")
        assert not seen.fail_with
        assert reflector.last_good_list_age_seconds() < TEST_PATIENCE_SECONDS


def test_unexpected_error_ends_the_reflector() -> None:
    seen = Seen()
    seen.fail_with = [KeyError("a bug")]

    with scripted(Watches()) as server:
        reflector = Reflector(
            server.cluster(), CONFIG_MAP, on_list=seen.on_list, on_event=seen.on_event
        )
        stop = threading.Event()
        with pytest.raises(KeyError):
            reflector.run(stop)
        stop.set()

    assert not reflector.is_synced


def hang_in_headers(exchange: Exchange) -> None:
    exchange.hold()


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(Watches(), id="in a silent watch"),
        pytest.param(Watches(held), id="before the answer to a watch"),
        pytest.param(hang_in_headers, id="before the answer to a list"),
        pytest.param(answer(503, {}, {"Retry-After": "60"}), id="in a wait"),
    ],
)
def test_stop_ends_a_blocked_reflector_within_a_second(script: Script) -> None:
    slow = Timings(backoff_seconds=(60, 60))
    stop, seen = threading.Event(), Seen()

    with scripted(script) as server:
        reflector = Reflector(
            server.cluster(),
            CONFIG_MAP,
            on_list=seen.on_list,
            on_event=seen.on_event,
            timings=slow,
        )
        thread = threading.Thread(target=reflector.run, args=(stop,))
        thread.start()
        is_watch = isinstance(script, Watches)
        server.wait_for(lambda requests: len(requests) == (2 if is_watch else 1))
        begun = time.monotonic()
        stop.set()
        thread.join(TEST_PATIENCE_SECONDS)

    assert not thread.is_alive()
    assert time.monotonic() - begun < 1


def test_stop_amid_a_flood_of_events_ends_it_too() -> None:
    flowing = threading.Event()

    def flood(exchange: Exchange) -> None:
        exchange.stream()
        while True:
            exchange.line(event("MODIFIED", "b", 11))
            flowing.set()

    with reflecting(Watches(flood), Seen()):
        assert flowing.wait(TEST_PATIENCE_SECONDS)


def test_age_counts_from_the_last_event() -> None:
    now = [100.0]
    seen = Seen()
    is_going_on = threading.Event()

    def later(exchange: Exchange) -> None:
        assert is_going_on.wait(TEST_PATIENCE_SECONDS)
        exchange.line(event("BOOKMARK", "", 12))
        exchange.line(event("ADDED", "b", 13))
        exchange.hold()

    timings = Timings(silence_seconds=TEST_PATIENCE_SECONDS)
    with reflecting(Watches(events(then=later)), seen, timings, clock=lambda: now[0]) as (ref, _):
        seen.wait_for("list 10: a10")
        now[0] = 160.0
        assert ref.last_good_list_age_seconds() == 60
        is_going_on.set()
        seen.wait_for("list 10: a10", "ADDED b")
        assert ref.last_good_list_age_seconds() == 0


def test_age_is_infinite_before_the_first_list() -> None:
    seen = Seen()

    with reflecting(answer(500, {}), seen) as (reflector, server):
        server.wait_for(lambda requests: len(requests) >= 3)
        assert reflector.last_good_list_age_seconds() == float("inf")
        assert not reflector.is_synced

    assert seen.reported == []


def test_waits_grow_to_their_limit_with_jitter() -> None:
    seen, stop = Seen(), Unhurried(60)

    with scripted(answer(500, {})) as server:
        reflector = Reflector(
            server.cluster(), CONFIG_MAP, on_list=seen.on_list, on_event=seen.on_event
        )
        reflector.run(stop)

    limits = [min(30, 0.8 * 2**failures) for failures in range(60)]
    assert all(wait <= limit for wait, limit in zip(stop.waits, limits, strict=True))
    assert max(stop.waits[10:]) > 15
    assert min(stop.waits[10:]) < 15


def test_waits_are_reset_after_a_successful_watch() -> None:
    seen, stop = Seen(), Unhurried(11)
    script = Watches(events(event("ADDED", "b", 11)), lists=[answer(500, {})] * 10)

    with scripted(script) as server:
        reflector = Reflector(
            server.cluster(), CONFIG_MAP, on_list=seen.on_list, on_event=seen.on_event
        )
        reflector.run(stop)

    assert seen.reported == ["list 10: a10", "ADDED b"]
    assert stop.waits[10] <= 0.8


def test_no_event_is_reported_after_stop() -> None:
    stop = threading.Event()
    kinds: list[str] = []

    def stopping(kind: str, manifest: dict[str, Any]) -> None:
        kinds.append(kind)
        stop.set()

    def burst(exchange: Exchange) -> None:
        exchange.stream()
        lines = b"".join(json.dumps(event("ADDED", "b", n)).encode() + b"\n" for n in range(99))
        exchange.chunk(lines)
        exchange.hold()

    with scripted(Watches(burst)) as server:
        reflector = Reflector(
            server.cluster(), CONFIG_MAP, on_list=Seen().on_list, on_event=stopping
        )
        reflector.run(stop)

    assert kinds == ["ADDED"]


class Unhurried(threading.Event):
    """A stop event that records the timeouts of waits and returns immediately."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.waits: list[float] = []
        self._most = most

    @override
    def wait(self, timeout: float | None = None) -> bool:
        if timeout is None:
            return super().wait()
        self.waits.append(timeout)
        if len(self.waits) == self._most:
            self.set()
        return self.is_set()


def test_list_and_watch_select_the_same_objects() -> None:
    seen = Seen()

    with reflecting(Watches(), seen, label_selector="a=b") as (_, server):
        server.wait_for(lambda requests: len(requests) >= 2)

    assert {(r.path, r.query["labelSelector"]) for r in server.requests} == {
        ("/api/v1/namespaces/n/configmaps", "a=b")
    }
