"""Only the holders of the kubeconfig reach the simulated API server, and no web page does."""

import asyncio
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer

from gpuplatform.dev.simulator.apiserver.dispatch import ApiHandler
from gpuplatform.dev.simulator.apiserver.guard import kept_token
from gpuplatform.dev.simulator.apiserver.journal import Journal
from gpuplatform.dev.simulator.apiserver.resources import Registry
from gpuplatform.dev.simulator.apiserver.store import Store
from gpuplatform.dev.simulator.apiserver.writes import Writer

NAMESPACES = "/api/v1/namespaces"
BODY = b'{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "one"}}'
JSON = {"Content-Type": "application/json"}
OWN = {"Authorization": "Bearer secret"}


def status(headers: Mapping[str, str], method: str = "POST", path: str = NAMESPACES) -> int:
    """Return the status of a request to a new server."""

    async def request() -> int:
        handler = ApiHandler(Writer(Store(None), Registry()), "secret")
        async with TestClient(TestServer(handler.application())) as client:
            reply = await client.request(
                method,
                path,
                data=BODY if method == "POST" else None,
                headers=headers,
                skip_auto_headers=["Content-Type"],
            )
            return reply.status

    return asyncio.run(request())


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({**OWN, **JSON}, 201),
        (JSON, 401),
        ({"Authorization": "Bearer other", **JSON}, 401),
        ({"Authorization": "Bearer s\u00e9cret", **JSON}, 401),
        (OWN, 415),
        ({**OWN, **JSON, "Origin": "http://localhost:9999"}, 403),
        ({**OWN, **JSON, "Origin": "null"}, 403),
        ({**OWN, **JSON, "Host": "rebind.evil.example:8001"}, 403),
        ({**OWN, **JSON, "Host": "127.0.0.1.evil.example"}, 403),
        ({**OWN, **JSON, "Host": "localhost:1"}, 201),
    ],
)
def test_a_write_needs_the_token_and_comes_from_no_page(
    headers: dict[str, str], expected: int
) -> None:
    assert status(headers) == expected


@pytest.mark.parametrize(
    ("path", "expected"), [("/readyz", 200), ("/version", 200), ("/apis", 401), (NAMESPACES, 401)]
)
def test_only_probes_and_the_version_need_no_token(path: str, expected: int) -> None:
    assert status({}, "GET", path) == expected


def test_the_token_stays_the_same_and_is_private(tmp_path: Path) -> None:
    token = kept_token(tmp_path)

    assert len(token) >= 40
    assert kept_token(tmp_path) == token
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600


def test_the_objects_are_private(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    directory.mkdir(mode=0o755)
    (directory / "old.jsonl").touch(0o644)

    journal = Journal(directory)
    journal.rewrite(1, ())
    journal.close()

    modes = {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
