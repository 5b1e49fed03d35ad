"""The probes of a container, and their times."""

from typing import Any

import pytest

from gpuplatform.workloads.template import Port
from tests.factories.template_pods import container_of, invalid_fields

PROBES = ("readinessProbe", "startupProbe", "livenessProbe")
HTTP = {"name": "http", "port": 8000}
SSH = {"name": "ssh", "port": 22}
PRIMARY = Port(name="http", port=8000)


def probes(template: dict[str, Any], **changes: Any) -> dict[str, Any]:
    found = container_of(template, **changes)
    return {name: found[name] for name in PROBES if name in found}


def times(period: int, failures: int) -> dict[str, int]:
    return {"periodSeconds": period, "timeoutSeconds": 5, "failureThreshold": failures}


@pytest.mark.parametrize(
    ("ports", "primary", "port"),
    [
        ([SSH, HTTP], PRIMARY, 8000),
        ([SSH, HTTP], None, 22),
        ([SSH, HTTP], Port(name="dns", port=53, protocol="UDP"), 22),
        ([{**SSH, "protocol": "SCTP"}, HTTP], None, 8000),
    ],
)
def test_readiness_is_the_primary_port_by_default(
    ports: list[dict[str, Any]], primary: Port | None, port: int
) -> None:
    assert probes({"ports": ports}, primary_port=primary) == {
        "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 1, "failureThreshold": 6}
    }


@pytest.mark.parametrize(
    "template", [{}, {"ports": [{**HTTP, "protocol": "UDP"}]}, {"readiness": {"none": True}}]
)
def test_a_container_can_have_no_probe(template: dict[str, Any]) -> None:
    assert probes(template) == {}


def test_no_readiness_disables_only_the_default() -> None:
    template = {"ports": [HTTP], "readiness": {"none": True}, "liveness": {"tcpSocket": {}}}

    assert probes(template) == {"livenessProbe": {"tcpSocket": {"port": 8000}, **times(10, 3)}}


def test_a_reservation_has_no_probe() -> None:
    template = {"ports": [HTTP], "liveness": {"tcpSocket": {}}}

    assert probes(template, is_reservation=True) == {}


@pytest.mark.parametrize(
    ("probe", "handler"),
    [
        ({"httpGet": {}}, {"httpGet": {"path": "/", "port": 8000, "scheme": "HTTP"}}),
        (
            {"httpGet": {"path": "/health?a=b", "port": 81, "scheme": "HTTPS"}},
            {"httpGet": {"path": "/health?a=b", "port": 81, "scheme": "HTTPS"}},
        ),
        ({"tcpSocket": {}}, {"tcpSocket": {"port": 8000}}),
        ({"tcpSocket": {"port": 81}}, {"tcpSocket": {"port": 81}}),
        (
            {"exec": {"command": ["sh", "-c", "kill -0 $$ && test $(A)"]}},
            {"exec": {"command": ["sh", "-c", "kill -0 $$$ && test $$(A)"]}},
        ),
    ],
)
def test_a_probe_has_its_handler(probe: dict[str, Any], handler: dict[str, Any]) -> None:
    template = {"ports": [SSH, HTTP], "readiness": probe}

    assert probes(template, primary_port=PRIMARY) == {"readinessProbe": {**handler, **times(1, 6)}}


@pytest.mark.parametrize(
    ("field", "seconds", "expected"),
    [
        ("readiness", None, times(1, 6)),
        ("readiness", 1, times(1, 1)),
        ("readiness", 5, times(1, 5)),
        ("startup", None, times(5, 120)),
        ("startup", 7200, times(5, 1440)),
        ("startup", 86400, times(5, 17280)),
        ("liveness", None, times(10, 3)),
        ("liveness", 61, times(10, 7)),
        ("liveness", 4, times(4, 1)),
    ],
)
def test_a_probe_may_fail_for_its_seconds(
    field: str, seconds: int | None, expected: dict[str, int]
) -> None:
    given = {"tcpSocket": {"port": 1}} | ({} if seconds is None else {"seconds": seconds})
    template = {"readiness": {"none": True}} | {field: given}

    [found] = probes(template).values()

    assert found == {"tcpSocket": {"port": 1}, **expected}


@pytest.mark.parametrize("field", ["readiness", "startup", "liveness"])
@pytest.mark.parametrize(
    ("probe", "path"),
    [
        ({}, ""),
        ({"seconds": 5}, ""),
        ({"none": True, "tcpSocket": {"port": 1}}, ""),
        ({"httpGet": {"port": 1}, "exec": {"command": ["a"]}}, ""),
        ({"none": False}, ".none"),
        ({"none": {}}, ".none"),
        ({"grpc": {"port": 1}}, ".grpc"),
        ({"httpGet": {}}, ".httpGet.port"),
        ({"tcpSocket": {}}, ".tcpSocket.port"),
        ({"httpGet": {"port": 0}}, ".httpGet.port"),
        ({"httpGet": {"port": "http"}}, ".httpGet.port"),
        ({"httpGet": {"port": 1, "path": "health"}}, ".httpGet.path"),
        ({"httpGet": {"port": 1, "path": "/a b"}}, ".httpGet.path"),
        ({"httpGet": {"port": 1, "path": "/a\n"}}, ".httpGet.path"),
        ({"httpGet": {"port": 1, "scheme": "https"}}, ".httpGet.scheme"),
        ({"httpGet": {"port": 1, "httpHeaders": []}}, ".httpGet.httpHeaders"),
        ({"exec": {}}, ".exec.command"),
        ({"exec": {"command": []}}, ".exec.command"),
        ({"exec": {"command": ["a\x00"]}}, ".exec.command[0]"),
        ({"tcpSocket": {"port": 1}, "seconds": 0}, ".seconds"),
        ({"tcpSocket": {"port": 1}, "seconds": 86401}, ".seconds"),
        ({"tcpSocket": {"port": 1}, "seconds": "5"}, ".seconds"),
    ],
)
def test_an_invalid_probe_is_rejected_with_its_field(
    field: str, probe: dict[str, Any], path: str
) -> None:
    found = invalid_fields({field: probe})

    assert set(found) - {field} <= {f"{field}{path}"}
    assert f"{field}{path}" in found
