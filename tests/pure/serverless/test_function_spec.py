"""The spec of a function."""

from typing import Any

import pytest

from gpuplatform.errors import InvalidSpec
from gpuplatform.workloads.function_worker import Framework
from serverless.core.spec import FunctionSpec
from serverless.requests import FunctionCreate, FunctionUpdate

SPEC = {"specName": "g1.1", "image": "echo:1"}


def test_defaults() -> None:
    spec = FunctionSpec.parse(SPEC)

    assert spec.normalised() == SPEC
    assert (spec.min_workers, spec.max_workers, spec.concurrency) == (0, 1, 1)
    assert (spec.idle_timeout_seconds, spec.timeout_seconds, spec.max_deliver) == (300, 30, 5)
    assert spec.backoff_seconds == (2, 10, 30)
    assert spec.framework.socket_path == "/run/serverless/framework.sock"
    assert (spec.framework.invoke_path, spec.framework.health_path) == ("/invoke", "/healthz")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"image": None}, "image"),
        ({"minWorkers": 2}, "minWorkers"),
        ({"minWorkers": -1}, "minWorkers"),
        ({"maxWorkers": 0}, "maxWorkers"),
        ({"maxWorkers": 101}, "maxWorkers"),
        ({"concurrency": 0}, "concurrency"),
        ({"timeoutSeconds": 0}, "timeoutSeconds"),
        ({"timeoutSeconds": 3601}, "timeoutSeconds"),
        ({"idleTimeoutSeconds": 0}, "idleTimeoutSeconds"),
        ({"maxDeliver": 0}, "maxDeliver"),
        ({"maxDeliver": 2, "backoffSeconds": [1, 2, 3]}, "backoffSeconds"),
        ({"backoffSeconds": []}, "backoffSeconds"),
        ({"backoffSeconds": [0]}, "backoffSeconds[0]"),
        ({"framework": {"invokePath": "invoke"}}, "framework.invokePath"),
        ({"framework": {"invokePath": "/a b"}}, "framework.invokePath"),
        ({"framework": {"invokePath": "/a?b=%zz"}}, "framework.invokePath"),
        ({"framework": {"invokePath": "/a?b c"}}, "framework.invokePath"),
        ({"framework": {"invokePath": "/a?b#c"}}, "framework.invokePath"),
        ({"framework": {"healthPath": "/a\r\nX: 1"}}, "framework.healthPath"),
        ({"framework": {"healthPath": "/a?b"}}, "framework.healthPath"),
        ({"framework": {"port": -1}}, "framework.port"),
        ({"framework": {"port": None}}, "framework.port"),
        ({"framework": {"port": 65536}}, "framework.port"),
        ({"framework": {"port": "8000"}}, "framework.port"),
        ({"framework": {"port": 8091}}, "framework.port"),
        (
            {"framework": {"port": 80, "socketPath": "/run/serverless/a.sock"}},
            "framework.socketPath",
        ),
        ({"framework": {"socketPath": "/run/serverless/../x"}}, "framework.socketPath"),
        ({"framework": {"socketPath": "/run/serverless/.."}}, "framework.socketPath"),
        ({"framework": {"socketPath": "/tmp/x"}}, "framework.socketPath"),
        ({"unknown": 1}, "unknown"),
    ],
    ids=str,
)
def test_invalid_value_is_rejected_by_field(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        FunctionSpec.parse({**SPEC, **change})

    assert caught.value.details[0].field == field


@pytest.mark.parametrize("path", ["/a?", "/a?model=b%2Fc&d=1+2", "/a?$filter=$$(HOME)"])
def test_invoke_path_may_have_query(path: str) -> None:
    spec = FunctionSpec.parse({**SPEC, "framework": {"invokePath": path}})

    assert spec.framework.invoke_path == path


def test_displayed_framework_with_port_is_accepted() -> None:
    displayed = Framework(port=8000).model_dump(by_alias=True)

    spec = FunctionSpec.parse({**SPEC, "framework": displayed})

    assert spec.normalised()["framework"] == {"port": 8000}


def test_max_deliver_below_number_of_default_delays_is_valid() -> None:
    assert FunctionSpec.parse({**SPEC, "maxDeliver": 1}).max_deliver == 1


@pytest.mark.parametrize("name", ["", "A", "a.b", "a" * 49, "ä", "a\n"])
def test_invalid_name_is_rejected(name: str) -> None:
    with pytest.raises(InvalidSpec):
        FunctionCreate.parse({**SPEC, "operationID": "o", "requestID": name})


def test_create_payload_is_spec() -> None:
    body = FunctionCreate.parse({**SPEC, "operationID": "o", "requestID": "-a_1"})

    assert body.payload() == SPEC
    assert body.spec() == FunctionSpec.parse(SPEC)


def test_update_naming_another_function_is_rejected() -> None:
    body = FunctionUpdate.parse({**SPEC, "operationID": "o", "requestID": "a"})

    body.check_request_id("a")
    with pytest.raises(InvalidSpec):
        body.check_request_id("b")
