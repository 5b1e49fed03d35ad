"""The messages about invalid requests, in a reviewed file."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from gpuplatform.api import strict_json
from gpuplatform.errors import RequestError
from gpuplatform.formats import image, names, quantity, text
from inventory.requests.pools import StockPoolCreate
from serverless.requests import FunctionUpdate
from tests.conftest import GoldenFiles
from units.requests import GpuUnitCreate, GpuUnitUpdate

DIGITS: Final = "0123456789abcdef" * 4
LONG: Final = ["a" * 256]

CHECKS: Final[tuple[tuple[Callable[[str], object], list[str]], ...]] = (
    (names.dns_label, ["", "My unit", "a" * 64]),
    (names.dns_subdomain, ["a..b"]),
    (names.label_value, ["-a"]),
    (names.spec_name, ["H100"]),
    (names.env_name, ["1A", ".."]),
    (names.config_key, ["a=b", ".."]),
    (names.port_name, ["123", "a--b"]),
    (names.operation_id, ["a b", ".."]),
    (quantity.canonical, ["x", "1" * 49, "1e99", "0.1n", "9Ei"]),
    (quantity.memory, ["1Ki", "1048576500m"]),
    (quantity.cpu, ["0", "2M", "1500u"]),
    (
        image.image_reference,
        [
            "",
            "a b",
            "https://a/b",
            DIGITS,
            "a@sha256:1",
            "a:ü",
            "Img",
            "a//b",
            "a.b:99999/c",
            *LONG,
        ],
    ),
    (text.container_text, ["a\x00b", "ü" * 16385]),
    (text.page_text, ["a\x1bb"]),
    (text.no_surrogates, ["\ud800"]),
)

JSON: Final = (
    b"",
    b"\xef\xbb\xbf{}",
    b'{"a":"\xff"}',
    b'{"a":01}',
    b"[" * 100_000,
    b'{"gpu":1,"gpu":8}',
    b'{"gpu":NaN}',
    b'{"gpu":1e400}',
    b'{"gpu":' + b"9" * 100 + b"}",
    b'{"a":"x\\u0000"}',
    b'{"a\\u0000":1}',
)

POOL: Final[dict[str, Any]] = {"operationID": "op-1", "specName": "g1", "replicas": 1}
UNIT: Final[dict[str, Any]] = {
    "operationID": "op-1",
    "name": "a",
    "specName": "g1",
    "image": "a",
}
ENV: Final = {"name": "A", "value": "b"}
TEMPLATES: Final[tuple[dict[str, Any], ...]] = (
    {"volumes": []},
    {"shmSize": "20GB"},
    {"envs": [{"name": "UNIT_NAME", "value": "b"}]},
    {"envs": [{"name": "A", "valueFrom": {}}]},
    {"envs": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.phase"}}}]},
    {"envFrom": [{}]},
    {"envFrom": [{"prefix": "NVIDIA_", "secretRef": {"name": "a"}}]},
    {"envFrom": [{"secretRef": {"name": "gpu-platform-secrets"}}]},
    {"imagePullSecrets": ["registry"]},
    {"readiness": {}},
    {"readiness": {"httpGet": {}}},
    {"readiness": {"httpGet": {"port": "http"}}},
    {"startup": {"tcpSocket": {"port": 1}, "seconds": 86_401}},
    {"scratch": {"size": "1Gi", "mountPath": "/proc/a"}},
    {"scratch": {"size": "2Gi"}, "ephemeralStorage": "1Gi"},
    {"annotations": {"cdi.k8s.io/gpu": "all"}},
    {"securityContext": {"privileged": True}},
)

BODIES: Final[tuple[tuple[Callable[[object], object], list[object]], ...]] = (
    (
        StockPoolCreate.parse,
        [
            None,
            [],
            {},
            {**POOL, "replicas": "1"},
            {**POOL, "replicas": 1.5},
            {**POOL, "replicas": -1},
            {**POOL, "replicas": 10**9},
            {**POOL, "gpus": 1},
            {**POOL, "memory": None},
            {**POOL, "template": {"command": [" "]}},
            {**POOL, "template": {"args": ["a"] * 10_001}},
            {**POOL, "template": {"args": ["a" * 32000] * 9}},
            {**POOL, "template": {"envs": [ENV, ENV]}},
            {**POOL, "template": {"envs": [{"name": "NVIDIA_VISIBLE_DEVICES"}]}},
            {
                **POOL,
                "template": {
                    "envs": [{**ENV, "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
                },
            },
            {**POOL, "template": {"ports": [{"name": "a", "port": 1, "protocol": "X"}]}},
            {
                **POOL,
                "template": {"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 1}]},
            },
        ],
    ),
    (StockPoolCreate.parse, [{**POOL, "template": template} for template in TEMPLATES]),
    (
        GpuUnitCreate.parse,
        [
            {**UNIT, "access": {"primaryPort": "web"}},
            {
                **UNIT,
                "access": {"primaryPort": "web"},
                "template": {"ports": [{"name": "http", "port": 80}]},
            },
        ],
    ),
    (GpuUnitUpdate.parse, [{"operationID": "op-1"}]),
    (FunctionUpdate.parse, [{"operationID": "op-1"}]),
)


def test_the_messages_are_as_reviewed(golden: GoldenFiles) -> None:
    lines = [_message(check, one) for check, given in CHECKS for one in given]
    lines += [_message(strict_json.loads, one) for one in JSON]
    lines += [_message(parse, one) for parse, bodies in BODIES for one in bodies]

    golden("api/messages.txt").check("\n".join(lines) + "\n")


def _message(check: Callable[[Any], object], given: object) -> str:
    with pytest.raises((ValueError, RequestError)) as caught:
        check(given)
    return str(caught.value)
