"""The names of workers, and the request that creates one."""

import pytest

from serverless.core.spec import FunctionSpec
from serverless.core.workers import function_of, generation_of, worker_name, worker_request

QUEUE = "nats://queue.example:4222"


def test_a_name_contains_the_function_and_the_generation() -> None:
    name = worker_name(7, 3, "0123abcd")

    assert name == "fn-7-3-0123abcd"
    assert (function_of(name), generation_of(name)) == (7, 3)


@pytest.mark.parametrize("name", ["", "fn-7", "fn-7-3-0123abcdx", "fn-x-3-0123abcd", "trainer"])
def test_any_other_name_belongs_to_no_function(name: str) -> None:
    assert (function_of(name), generation_of(name)) == (0, 0)


def test_a_worker_is_requested_with_the_settings_of_its_function() -> None:
    spec = FunctionSpec.parse(
        {"specName": "g1.1", "image": "app:1", "maxWorkers": 3, "concurrency": 4}
    )

    request = worker_request(
        spec, function=7, tenant="acme", name="fn-7-3-0123abcd", queue_url=QUEUE
    )

    assert spec.max_in_progress == 12
    assert (request.name, request.operation_id) == ("fn-7-3-0123abcd", "fn-7-3-0123abcd")
    assert (request.spec_name, request.image) == ("g1.1", "app:1")
    block = request.serverless
    assert (block.function_id, block.tenant, block.queue_url) == (7, "acme", QUEUE)
    assert (block.concurrency, block.credentials_secret) == (4, "fn-7-queue")
