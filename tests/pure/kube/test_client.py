import datetime
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import Configuration
from kubernetes.config.incluster_config import InClusterConfigLoader

from gpuplatform.kube import transport
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.deadline import deadline
from gpuplatform.kube.errors import (
    ClusterConflict,
    ClusterForbidden,
    ClusterGone,
    ClusterRejected,
    ClusterUnavailable,
)
from gpuplatform.kube.interrupt import Interrupt, interruptible
from gpuplatform.kube.kinds import CONFIG_MAP, LEASE, NODE
from tests.fakes.scripted_server import Exchange, Script, cluster_at, scripted, unused_address

ABSENT = {"kind": "Status", "code": 404, "reason": "NotFound", "details": {"name": "x"}}
EXPIRED = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
MAP = {"metadata": {"name": "x", "namespace": "n"}, "data": {"a": "😀\x85"}}


def always(document: Any, status: int = 200) -> Script:
    return lambda exchange: exchange.json(document, status)


def raw(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Script:
    return lambda exchange: exchange.raw(body, status, headers)


def cut(exchange: Exchange) -> None:
    """Send no response."""


def page(names: list[str], token: str = "", version: str = "7") -> dict[str, Any]:
    return {
        "kind": "ConfigMapList",
        "metadata": {"resourceVersion": version, "continue": token},
        "items": [{"metadata": {"name": name}} for name in names],
    }


def test_object_is_returned_unchanged() -> None:
    with scripted(always(MAP)) as server:
        assert server.cluster().get(CONFIG_MAP, "x", namespace="n") == MAP

    assert server.requests[0].path == "/api/v1/namespaces/n/configmaps/x"


def test_absent_object_is_none() -> None:
    with scripted(always(ABSENT, 404)) as server:
        assert server.cluster().get(CONFIG_MAP, "x", namespace="n") is None


def test_404_that_names_no_object_is_not_absence() -> None:
    with scripted(raw(b"404 page not found\n", 404)) as server:
        with pytest.raises(ClusterUnavailable):
            server.cluster().get(CONFIG_MAP, "x", namespace="n")
        with pytest.raises(ClusterUnavailable):
            server.cluster().delete(CONFIG_MAP, "x", namespace="n")
        with pytest.raises(ClusterUnavailable):
            server.cluster().list(CONFIG_MAP)


def test_list_is_read_in_pages_and_its_items_get_their_kind() -> None:
    pages = {"": page(["a"], "t1"), "t1": page(["b"], "t2"), "t2": page(["c"])}

    with scripted(lambda exchange: exchange.json(pages[exchange.query.get("continue", "")])) as s:
        listing = s.cluster().list(CONFIG_MAP, namespace="n", label_selector="a=b,c")

    assert [item["metadata"]["name"] for item in listing.items] == ["a", "b", "c"]
    assert {(item["apiVersion"], item["kind"]) for item in listing.items} == {("v1", "ConfigMap")}
    assert listing.resource_version == "7"
    assert {(r.query["limit"], r.query["labelSelector"]) for r in s.requests} == {("500", "a=b,c")}


def test_list_restarts_when_a_page_is_too_old() -> None:
    answers: list[tuple[Any, int]] = [
        (page(["old"], "t"), 200),
        (EXPIRED, 410),
        (page(["a"]), 200),
    ]

    with scripted(lambda exchange: exchange.json(*answers.pop(0))) as server:
        listing = server.cluster().list(CONFIG_MAP)

    assert [item["metadata"]["name"] for item in listing.items] == ["a"]


def test_list_that_is_always_too_old_fails() -> None:
    with scripted(always(EXPIRED, 410)) as server, pytest.raises(ClusterGone):
        server.cluster().list(CONFIG_MAP)

    assert len(server.requests) == 3


def test_list_without_items_of_an_empty_kind_is_empty() -> None:
    with scripted(always({"metadata": {"resourceVersion": "7"}, "items": None})) as server:
        assert server.cluster().list(NODE).items == []


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({"metadata": {"resourceVersion": "7"}, "items": {}}, id="items are no list"),
        pytest.param({"metadata": {"resourceVersion": "7"}, "items": [1]}, id="item is no object"),
        pytest.param({"metadata": {}, "items": []}, id="no version"),
        pytest.param({"items": []}, id="no metadata"),
        pytest.param([], id="no object"),
    ],
)
def test_malformed_list_is_an_outage_not_an_empty_list(document: Any) -> None:
    with scripted(always(document)) as server, pytest.raises(ClusterUnavailable):
        server.cluster().list(CONFIG_MAP)


def test_truncated_page_of_a_list_is_an_outage() -> None:
    def cut(exchange: Exchange) -> None:
        exchange.head(200, {"Content-Length": "1000"})
        exchange.write(json.dumps(page(["a"])).encode())

    with scripted(cut) as server, pytest.raises(ClusterUnavailable, match="connection was lost"):
        server.cluster().list(CONFIG_MAP)


def test_truncated_chunked_response_is_an_outage() -> None:
    def cut(exchange: Exchange) -> None:
        exchange.stream()
        exchange.line(page([]))

    with scripted(cut) as server, pytest.raises(ClusterUnavailable, match="connection was lost"):
        server.cluster().list(CONFIG_MAP)


def test_create_posts_and_apply_sends_yaml_safe_json() -> None:
    with scripted(always({})) as server:
        server.cluster().create(CONFIG_MAP, MAP)
        server.cluster().apply(CONFIG_MAP, MAP, force=False)

    created, applied = server.requests
    assert (created.method, created.path) == ("POST", "/api/v1/namespaces/n/configmaps")
    assert created.query == {"fieldManager": "gpu-platform"}
    assert json.loads(created.body) == json.loads(applied.body) == MAP
    assert (applied.method, applied.path) == ("PATCH", "/api/v1/namespaces/n/configmaps/x")
    assert applied.query == {"fieldManager": "gpu-platform", "force": "false"}
    assert applied.headers["Content-Type"] == "application/apply-patch+yaml"
    assert "😀\\u0085".encode() in applied.body


def test_patch_names_its_subresource_and_sends_nulls() -> None:
    with scripted(always({})) as server:
        patch = {"metadata": {"uid": "u"}, "status": {"a": None}}
        server.cluster().merge_patch(CONFIG_MAP, "x", patch, namespace="n", subresource="status")

    sent = server.requests[0]
    assert sent.path == "/api/v1/namespaces/n/configmaps/x/status"
    assert sent.headers["Content-Type"] == "application/merge-patch+json"
    assert json.loads(sent.body) == patch


def test_delete_sends_its_preconditions() -> None:
    with scripted(always({"kind": "Status", "status": "Success"})) as server:
        assert server.cluster().delete(
            CONFIG_MAP, "x", namespace="n", uid="u", resource_version="5"
        )

    assert json.loads(server.requests[0].body) == {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "propagationPolicy": "Background",
        "preconditions": {"uid": "u", "resourceVersion": "5"},
    }


def test_delete_without_preconditions_sends_none() -> None:
    with scripted(always({})) as server:
        server.cluster().delete(NODE, "x", propagation="Foreground")

    body = json.loads(server.requests[0].body)
    assert body["propagationPolicy"] == "Foreground"
    assert "preconditions" not in body


def test_delete_of_an_absent_object_is_false() -> None:
    with scripted(always(ABSENT, 404)) as server:
        assert server.cluster().delete(CONFIG_MAP, "x", namespace="n") is False


def test_write_of_an_absent_object_is_rejected() -> None:
    with scripted(always(ABSENT, 404)) as server:
        cluster = server.cluster()
        writes: list[Callable[[], object]] = [
            lambda: cluster.create(CONFIG_MAP, MAP),
            lambda: cluster.replace(CONFIG_MAP, MAP),
            lambda: cluster.merge_patch(CONFIG_MAP, "x", {}, namespace="n"),
        ]
        for write in writes:
            with pytest.raises(ClusterRejected) as raised:
                write()
            assert raised.value.reason == "NotFound"


def test_conflict_of_a_replace_is_raised() -> None:
    conflict = {"kind": "Status", "code": 409, "reason": "Conflict", "message": "changed"}

    with (
        scripted(always(conflict, 409)) as server,
        pytest.raises(ClusterConflict, match="changed"),
    ):
        server.cluster().replace(LEASE, MAP)


def test_rejected_token_is_read_again_once() -> None:
    tokens = ["old", "new"]

    def check(exchange: Exchange) -> None:
        is_known = exchange.headers.get("Authorization") == "Bearer new"
        exchange.json({"gitVersion": "v1"} if is_known else {}, 200 if is_known else 401)

    with scripted(check) as server:
        cluster = Cluster(lambda: with_token(server.url, tokens.pop(0)))
        assert cluster.version() == "v1"

    assert len(server.requests) == 2


def test_token_that_stays_rejected_is_raised_after_one_retry() -> None:
    with scripted(always({}, 401)) as server, pytest.raises(ClusterForbidden):
        server.cluster().version()

    assert len(server.requests) == 2


def test_token_of_a_pod_is_read_again_from_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "TOKEN_SECONDS", 0.0)
    token, authority = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("first")
    authority.write_text("unused")
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    loader: Any = InClusterConfigLoader(  # type: ignore[no-untyped-call]
        str(token), str(authority), environ=environ
    )

    with scripted(always({"gitVersion": "v1"})) as server:
        configuration = Configuration()
        loader.load_and_set(configuration)
        configuration.host = loader.host = server.url
        configuration.ssl_ca_cert = None
        cluster = Cluster(lambda: configuration)
        cluster.version()
        token.write_text("second")
        cluster.version()
        loader.token_expires_at -= datetime.timedelta(hours=1)  # checked each minute
        cluster.version()
        cluster.close()

    sent = [request.headers["Authorization"].lower() for request in server.requests]
    assert sent == ["bearer first", "bearer first", "bearer second"]


def with_token(url: str, token: str) -> Configuration:
    configuration = Configuration()
    configuration.host = url
    configuration.api_key["BearerToken"] = f"Bearer {token}"
    return configuration


@pytest.mark.parametrize("body", [b"", b"<html>", b'"text"', b"\xff"])
def test_success_without_an_object_is_an_outage(body: bytes) -> None:
    with (
        scripted(raw(body)) as server,
        pytest.raises(ClusterUnavailable, match="invalid response"),
    ):
        server.cluster().version()


def test_write_is_not_repeated_after_a_lost_connection() -> None:
    with scripted(cut) as server, pytest.raises(ClusterUnavailable) as raised:
        server.cluster().create(CONFIG_MAP, MAP)

    assert raised.value.status == 0
    assert len(server.requests) == 1


def test_read_is_not_repeated_after_a_lost_connection() -> None:
    with scripted(cut) as server, pytest.raises(ClusterUnavailable):
        server.cluster().version()

    assert len(server.requests) == 1


def test_redirect_is_not_followed() -> None:
    elsewhere = {"Location": unused_address()}

    with (
        scripted(raw(b"", 302, elsewhere)) as server,
        pytest.raises(ClusterUnavailable, match="302"),
    ):
        server.cluster().version()


def test_refused_connection_has_a_readable_message() -> None:
    with pytest.raises(ClusterUnavailable, match="connection refused"):
        cluster_at(unused_address()).version()


def test_silent_server_takes_no_longer_than_the_deadline() -> None:
    with scripted(lambda exchange: exchange.hold()) as server:
        begun = time.monotonic()
        with pytest.raises(ClusterUnavailable, match="response timed out"), deadline(0.2):
            server.cluster().version()

    assert time.monotonic() - begun < 2


def test_slow_response_takes_no_longer_than_the_deadline() -> None:
    def drip(exchange: Exchange) -> None:
        exchange.head(200, {"Content-Length": "100000"})
        while not dripped.wait(0.02):
            exchange.write(b" ")

    dripped = threading.Event()
    with scripted(drip) as server:
        begun = time.monotonic()
        with pytest.raises(ClusterUnavailable), deadline(0.2):
            server.cluster().version()
        dripped.set()

    assert time.monotonic() - begun < 2


def test_second_call_has_the_time_that_the_first_left() -> None:
    with scripted(always({"gitVersion": "v1"})) as server:
        cluster, now = server.cluster(), [0.0]
        with deadline(5, clock=lambda: now[0]):
            cluster.version()
            now[0] = 5.0
            with pytest.raises(ClusterUnavailable):
                cluster.version()

    assert len(server.requests) == 1


def test_blocked_read_ends_immediately_when_interrupted() -> None:
    interrupt = Interrupt()

    with scripted(lambda exchange: exchange.hold()) as server:

        def fire_when_asked() -> None:
            server.wait_for(lambda seen: len(seen) == 1)
            interrupt.fire()

        firing = threading.Thread(target=fire_when_asked)
        firing.start()
        begun = time.monotonic()
        with interruptible(interrupt), pytest.raises(ClusterUnavailable):
            server.cluster().version()
        firing.join()

    assert time.monotonic() - begun < 2


def test_fired_interrupt_ends_later_reads_too_but_only_of_its_scope() -> None:
    interrupt = Interrupt()
    interrupt.fire()

    with scripted(always({"gitVersion": "v1"})) as server:
        cluster = server.cluster()
        with interruptible(interrupt), pytest.raises(ClusterUnavailable):
            cluster.version()
        assert cluster.version() == "v1"


def test_connection_is_reused() -> None:
    ports = set()

    def note(exchange: Exchange) -> None:
        ports.add(exchange._handler.client_address[1])
        exchange.json({"gitVersion": "v1"})

    with scripted(note) as server:
        cluster = server.cluster()
        for _ in range(5):
            cluster.version()
        cluster.close()

    assert len(ports) == 1
