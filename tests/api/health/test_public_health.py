"""The health for callers without the operator scope: no numbers, and a limited load."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pytest_django import Settings

from gpuplatform.observability import health_document
from gpuplatform.observability.health_document import COUNTS, recent_health
from gpuplatform.tenancy.models import Scope
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.tenancy.services import token_create
from tests.factories.inventory import pool_row
from tests.fakes.api import Api
from tests.fakes.cluster import FakeCluster

HEALTH = "/api/v1/health"

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


@pytest.fixture(autouse=True)
def _nothing_was_read() -> Iterator[None]:
    health_document._RECENT.reset()
    yield
    health_document._RECENT.reset()


@pytest.mark.parametrize(
    ("scopes", "sees"),
    [((), False), ((Scope.USER,), False), ((Scope.OPERATOR,), True), (None, False)],
    ids=["without", "user", "operator", "unknown"],
)
def test_only_operators_see_numbers(
    api: Api,
    cluster: FakeCluster,
    settings: Settings,
    scopes: tuple[Scope, ...] | None,
    sees: bool,
) -> None:
    settings.GPUPLATFORM_DEV = False
    pool_row()
    secret = "gpu_unknown"
    if scopes:
        secret = token_create(tenant=tenant_by_name(), name="t", scopes=scopes)[1]
    headers = None if scopes == () else {"Authorization": f"Bearer {secret}"}

    found = api.client.get(HEALTH, headers=headers).json()["data"]

    assert found["parts"]["database"]["ok"] is True
    assert (found["stockPoolCount"] == 1) == sees
    assert all(found[name] is None for name in COUNTS) != sees


def test_concurrent_callers_cause_one_read(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[None] = []
    barrier = threading.Barrier(8)

    def health() -> dict[str, Any]:
        reads.append(None)
        return {"ready": True, "nodeCount": 3}

    monkeypatch.setattr(health_document, "health", health)

    def read(_: int) -> dict[str, Any]:
        barrier.wait()
        return recent_health()

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(read, range(8)))

    assert len(reads) == 1
    assert {(one["ready"], one["nodeCount"]) for one in found} == {(True, None)}
