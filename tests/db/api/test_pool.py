"""The connection pool of the web process after the database server dropped its connections."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from gpuplatform.postgresql.base import DatabaseWrapper

SIZE = 6
SECONDS = 5

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


@pytest.fixture
def pooled() -> Iterator[DatabaseWrapper]:
    """A connection from a pool with idle connections, to the database of the tests."""
    settings: dict[str, Any] = {**connection.settings_dict, "CONN_MAX_AGE": 0}
    options = {k: v for k, v in settings["OPTIONS"].items() if k != "pool"}
    pool = {"min_size": SIZE, "max_size": SIZE, "timeout": SECONDS, "reconnect_timeout": SECONDS}
    settings["OPTIONS"] = {**options, "pool": pool}
    wrapper = DatabaseWrapper(settings, "pooled")
    wrapper.pool.open(wait=True, timeout=30)
    yield wrapper
    wrapper.close()
    wrapper.close_pool()


def test_dropped_connections_delay_requests_but_fail_none(pooled: DatabaseWrapper) -> None:
    settings, failures, durations = pooled.settings_dict, [], []
    own = {conn.info.backend_pid for conn in _idle(pooled)}
    with connection.cursor() as cursor:
        for pid in own:
            cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])

    def request() -> None:
        wrapper = DatabaseWrapper(settings, "pooled")
        begun = time.monotonic()
        try:
            with wrapper.cursor() as cursor:
                cursor.execute("SELECT 1")
        except Exception as error:  # noqa: BLE001 - reported by the assertion
            failures.append(error)
        finally:
            durations.append(time.monotonic() - begun)
            wrapper.close()

    threads = [threading.Thread(target=request) for _ in range(SIZE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not failures
    assert max(durations) < SECONDS - 1


def _idle(pooled: DatabaseWrapper) -> list[Any]:
    taken = [pooled.pool.getconn() for _ in range(SIZE)]
    for one in taken:
        pooled.pool.putconn(one)
    return taken
