import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.errors import ClusterConflict, ClusterError, ClusterGone, ClusterUnavailable
from gpuplatform.kube.kinds import CONFIG_MAP, LEASE, NODE
from gpuplatform.kube.watch import WatchEvent
from tests.fakes import faults
from tests.fakes.fault_proxy import FaultProxy, Upstream
from tests.fakes.faults import Cut, Delay, Fault, Hold, Refuse, Rule, StaleRead
from tests.fakes.scripted_server import Exchange, ScriptedServer, scripted

MAP = {"metadata": {"name": "x", "namespace": "n"}}


class Counting:
    """A server with numbered responses, and a watch of six events."""

    def __init__(self) -> None:
        self.acts = 0

    def __call__(self, exchange: Exchange) -> None:
        if not exchange.is_watch:
            self.acts += 1
            metadata = {"resourceVersion": str(self.acts)}
            exchange.json({"metadata": metadata, "items": [], "n": self.acts})
            return
        exchange.stream()
        for version in range(1, 7):
            metadata = {"resourceVersion": str(version)}
            exchange.line({"type": "MODIFIED", "object": {"metadata": metadata}})
        exchange.end_stream()


@contextmanager
def proxied(*rules: Rule) -> Iterator[tuple[Cluster, Counting, FaultProxy, ScriptedServer]]:
    counting = Counting()
    with scripted(counting) as server:
        proxy = FaultProxy(Upstream(server.url, token="t"))
        proxy.add(*rules)
        with proxy.running():
            cluster = proxy.cluster()
            yield cluster, counting, proxy, server
            cluster.close()


def versions(cluster: Cluster, **asked: Any) -> list[str]:
    stream = cluster.watch(CONFIG_MAP, resource_version="0", timeout_seconds=60, **asked)
    return [event.resource_version for event in stream]


def test_without_rules_everything_passes_with_its_token() -> None:
    with proxied() as (cluster, _, proxy, server):
        assert cluster.get(CONFIG_MAP, "x", namespace="n") is not None
        assert cluster.create(CONFIG_MAP, MAP)["n"] == 2
        assert versions(cluster) == ["1", "2", "3", "4", "5", "6"]

    assert {seen.headers["Authorization"] for seen in server.requests} == {"Bearer t"}
    assert (proxy.count("create", "configmaps"), proxy.count("watch"), proxy.count("list")) == (
        1,
        1,
        0,
    )


def test_rule_takes_only_its_verbs_its_resource_and_its_number() -> None:
    rule = Rule(Refuse(503), verbs=("get",), resource="leases", times=2, skip=1)

    with proxied(rule) as (cluster, _, _, _):
        cluster.list(LEASE)
        cluster.get(CONFIG_MAP, "x", namespace="n")
        cluster.get(LEASE, "first passes", namespace="n")
        for _ in range(2):
            with pytest.raises(ClusterUnavailable):
                cluster.get(LEASE, "x", namespace="n")
        cluster.get(LEASE, "x", namespace="n")

    assert rule.hits == 2


def test_cleared_rules_are_gone() -> None:
    with proxied(Rule(Refuse(503), times=None)) as (cluster, _, proxy, _):
        proxy.clear()

        assert cluster.list(NODE).items == []


@pytest.mark.parametrize(
    ("fault", "acts"),
    [
        pytest.param(Cut(), 0, id="cut before the server acted"),
        pytest.param(Cut(is_after=True), 1, id="cut after the server acted"),
    ],
)
def test_cut_connection(fault: Fault, acts: int) -> None:
    with proxied(Rule(fault)) as (cluster, counting, _, _):
        with pytest.raises(ClusterUnavailable, match="connection was lost"):
            cluster.create(CONFIG_MAP, MAP)

        assert counting.acts == acts


@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
def test_held_connection(is_after: bool) -> None:
    gate, answered = threading.Event(), threading.Event()

    with proxied(Rule(Hold(gate, is_after=is_after))) as (cluster, counting, proxy, server):

        def ask() -> None:
            cluster.version()
            answered.set()

        thread = threading.Thread(target=ask)
        thread.start()
        if is_after:
            server.wait_for(lambda seen: len(seen) == 1)
        else:
            proxy._server.wait_for(lambda seen: len(seen) == 1)
        assert not answered.is_set()
        assert counting.acts == int(is_after)
        gate.set()
        thread.join(20)

    assert answered.is_set()


@pytest.mark.parametrize(
    ("fault", "expected", "retry_after"),
    [
        pytest.param(Refuse(409, "Conflict"), ClusterConflict, None, id="409"),
        pytest.param(Refuse(410, "Expired"), ClusterGone, None, id="410"),
        pytest.param(Refuse(429, retry_after=7), ClusterUnavailable, 7, id="429"),
        pytest.param(Refuse(500), ClusterUnavailable, None, id="500"),
        pytest.param(Refuse(503), ClusterUnavailable, None, id="503"),
    ],
)
def test_refusal(fault: Refuse, expected: type[ClusterError], retry_after: float | None) -> None:
    with proxied(Rule(fault)) as (cluster, counting, _, _):
        with pytest.raises(expected) as raised:
            cluster.create(CONFIG_MAP, MAP)

        assert counting.acts == 0
    assert raised.value.retry_after == retry_after


def test_delayed_request_arrives() -> None:
    with proxied(Rule(Delay(0.05))) as (cluster, counting, _, _):
        cluster.create(CONFIG_MAP, MAP)

        assert counting.acts == 1


def test_stale_read_answers_as_before() -> None:
    with proxied(Rule(StaleRead(), verbs=("get",), times=None)) as (cluster, _, proxy, _):
        read = [cluster.get(CONFIG_MAP, "x", namespace="n") for _ in range(3)]
        proxy.clear()
        fresh = cluster.get(CONFIG_MAP, "x", namespace="n")

    assert [each and each["n"] for each in [*read, fresh]] == [1, 1, 1, 2]


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        pytest.param(faults.drop(3), "1 2 4 5", id="dropped"),
        pytest.param(faults.repeat(3), "1 2 3 3 4 5 6 6", id="repeated"),
        pytest.param(faults.reorder(2), "1 3 2 5 4 6", id="reordered"),
    ],
)
def test_edited_stream(fault: Fault, expected: str) -> None:
    with proxied(Rule(fault, verbs=("watch",))) as (cluster, _, _, _):
        assert versions(cluster) == expected.split()


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        pytest.param(faults.cut_stream(2), ClusterUnavailable, id="cut"),
        pytest.param(faults.cut_in_line(2), ClusterUnavailable, id="cut in a line"),
        pytest.param(faults.broken_line(2), ClusterUnavailable, id="broken line"),
        pytest.param(faults.gone(2), ClusterGone, id="gone"),
        pytest.param(faults.half_open(2), ClusterUnavailable, id="half open"),
    ],
)
def test_stream_that_ends_badly_after_some_lines(
    fault: Fault, expected: type[ClusterError]
) -> None:
    seen: list[WatchEvent] = []

    with proxied(Rule(fault, verbs=("watch",))) as (cluster, _, _, _):
        stream = cluster.watch(
            CONFIG_MAP, resource_version="0", timeout_seconds=60, silence_seconds=0.2
        )
        with pytest.raises(expected):
            seen.extend(stream)

    assert [event.resource_version for event in seen] == ["1", "2"]
