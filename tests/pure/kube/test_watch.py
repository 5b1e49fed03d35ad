import json
from typing import Any

import pytest

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.errors import ClusterError, ClusterForbidden, ClusterGone, ClusterUnavailable
from gpuplatform.kube.kinds import CONFIG_MAP
from gpuplatform.kube.watch import WatchEvent, WatchStream
from tests.fakes.scripted_server import Exchange, scripted

EXPIRED = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}


def event(kind: str, version: int) -> dict[str, Any]:
    return {"type": kind, "object": {"metadata": {"resourceVersion": str(version)}}}


def watch(cluster: Cluster, **asked: Any) -> WatchStream:
    asked = {"resource_version": "5", "timeout_seconds": 60, **asked}
    return cluster.watch(CONFIG_MAP, namespace="n", **asked)


def test_watch_requests_bookmarks_from_its_version_on() -> None:
    def end(exchange: Exchange) -> None:
        exchange.stream()
        exchange.end_stream()

    with scripted(end) as server:
        assert list(watch(server.cluster(), timeout_seconds=59.2, label_selector="a")) == []

    assert server.requests[0].query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "5",
        "labelSelector": "a",
        "timeoutSeconds": "60",
    }


def test_events_arrive_in_order_however_the_bytes_are_split() -> None:
    events = [event("ADDED", 6), event("BOOKMARK", 7), event("DELETED", 8)]
    data = b"\n".join(json.dumps(each).encode() for each in events) + b"\n\n"

    def drip(exchange: Exchange) -> None:
        exchange.stream()
        for start in range(0, len(data), 7):
            exchange.chunk(data[start : start + 7])
        exchange.end_stream()

    with scripted(drip) as server:
        seen = list(watch(server.cluster()))

    assert [(each.type, each.resource_version) for each in seen] == [
        ("ADDED", "6"),
        ("BOOKMARK", "7"),
        ("DELETED", "8"),
    ]


def test_event_is_delivered_before_the_next_one_arrives() -> None:
    def one_and_wait(exchange: Exchange) -> None:
        exchange.stream()
        exchange.line(event("ADDED", 6))
        exchange.hold()

    with scripted(one_and_wait) as server:
        stream = watch(server.cluster())
        assert next(stream).type == "ADDED"
        stream.close()


def test_stream_without_chunks_is_read_line_by_line() -> None:
    def plain(exchange: Exchange) -> None:
        exchange.head(200, {"Connection": "close"})
        exchange.write(json.dumps(event("ADDED", 6)).encode() + b"\n")
        exchange.hold()

    with scripted(plain) as server:
        stream = watch(server.cluster())
        assert next(stream).resource_version == "6"
        stream.close()


def test_long_line_is_one_event() -> None:
    large: dict[str, Any] = {"type": "ADDED", "object": {"data": "x" * 2_000_000}}

    def send(exchange: Exchange) -> None:
        exchange.stream()
        exchange.line(large)
        exchange.end_stream()

    with scripted(send) as server:
        assert list(watch(server.cluster())) == [WatchEvent("ADDED", large["object"])]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param(b"{not json}\n", ClusterUnavailable, id="no JSON"),
        pytest.param(b"[]\n", ClusterUnavailable, id="no object"),
        pytest.param(b'{"type": "ADDED"}\n', ClusterUnavailable, id="no object inside"),
        pytest.param(b'{"type": 1, "object": {}}\n', ClusterUnavailable, id="type is no text"),
        pytest.param(b'{"type": "ADDED", "obj', ClusterUnavailable, id="half a line"),
        pytest.param(b"\xff\xfe\n", ClusterUnavailable, id="no text"),
        pytest.param(
            json.dumps({"type": "ERROR", "object": EXPIRED}).encode() + b"\n",
            ClusterGone,
            id="version compacted away",
        ),
        pytest.param(
            b'{"type": "ERROR", "object": {"code": 500, "message": "etcd"}}\n',
            ClusterUnavailable,
            id="error of the server",
        ),
        pytest.param(b'{"type": "ERROR", "object": {}}\n', ClusterUnavailable, id="error unsaid"),
    ],
)
def test_malformed_event_ends_the_watch(line: bytes, expected: type[ClusterError]) -> None:
    def send(exchange: Exchange) -> None:
        exchange.stream()
        exchange.line(event("ADDED", 6))
        exchange.chunk(line)
        exchange.end_stream()

    with scripted(send) as server:
        stream = watch(server.cluster())
        assert next(stream).type == "ADDED"
        with pytest.raises(expected):
            next(stream)


@pytest.mark.parametrize(
    ("status", "document", "expected"),
    [
        pytest.param(410, EXPIRED, ClusterGone, id="gone"),
        pytest.param(403, {}, ClusterForbidden, id="forbidden"),
        pytest.param(401, {}, ClusterForbidden, id="token refused"),
        pytest.param(503, {}, ClusterUnavailable, id="unavailable"),
        pytest.param(404, {}, ClusterUnavailable, id="kind not installed"),
    ],
)
def test_rejected_watch_raises_immediately(
    status: int, document: dict[str, Any], expected: type[ClusterError]
) -> None:
    def refuse(exchange: Exchange) -> None:
        exchange.json(document, status)

    with scripted(refuse) as server, pytest.raises(expected):
        watch(server.cluster())


def test_silent_connection_counts_as_lost() -> None:
    def silent(exchange: Exchange) -> None:
        exchange.stream()
        exchange.hold()

    with scripted(silent) as server, pytest.raises(ClusterUnavailable, match="response timed out"):
        list(watch(server.cluster(), silence_seconds=0.1))


def test_lost_connection_is_an_outage_not_an_end() -> None:
    def cut(exchange: Exchange) -> None:
        exchange.stream()
        exchange.line(event("ADDED", 6))

    with scripted(cut) as server, pytest.raises(ClusterUnavailable, match="connection was lost"):
        list(watch(server.cluster()))


@pytest.mark.parametrize(
    "body",
    [{}, {"metadata": None}, {"metadata": {}}, {"metadata": {"resourceVersion": 5}}],
    ids=["no metadata", "null", "no version", "version is a number"],
)
def test_event_without_a_version_has_none(body: dict[str, Any]) -> None:
    assert WatchEvent("ADDED", body).resource_version == ""
