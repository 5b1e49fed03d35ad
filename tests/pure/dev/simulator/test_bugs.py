"""Internal errors of the simulator are Status objects, as on a real API server."""

import asyncio
import json
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from typing_extensions import override

from gpuplatform.dev.simulator.apiserver.dispatch import ApiHandler
from gpuplatform.dev.simulator.apiserver.resources import Registry
from gpuplatform.dev.simulator.apiserver.store import Entry, History, Key, Store
from gpuplatform.dev.simulator.apiserver.writes import Writer

OBJECT = "/api/v1/namespaces/default/configmaps/one"
STATUS = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "Internal error occurred: a bug",
    "reason": "InternalError",
    "details": {"causes": [{"message": "a bug"}]},
    "code": 500,
}


class BrokenStore(Store):
    """A store whose reads fail."""

    @override
    def get(self, key: Key) -> Entry | None:
        raise RuntimeError("a bug")

    @override
    def history(self, kind: tuple[str, str]) -> History:
        raise RuntimeError("a bug")


def answer(method: str, path: str, body: object = None) -> tuple[int, str, Any]:
    """Return status, media type and body of the response of a server with a bug."""

    async def request() -> tuple[int, str, Any]:
        handler = ApiHandler(Writer(BrokenStore(None), Registry()), "secret")
        async with TestClient(TestServer(handler.application())) as client:
            reply = await client.request(
                method, path, json=body, headers={"Authorization": "Bearer secret"}
            )
            return reply.status, reply.content_type, json.loads(await reply.text())

    return asyncio.run(request())


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_an_internal_error_is_a_status(method: str) -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}

    found = answer(method, OBJECT, manifest if method == "PUT" else None)

    assert found == (500, "application/json", STATUS)


def test_an_internal_error_in_a_watch_is_its_last_event() -> None:
    path = "/api/v1/namespaces/default/configmaps?watch=true&resourceVersion=1"

    status, _, event = answer("GET", path)

    assert (status, event) == (200, {"type": "ERROR", "object": STATUS})
