"""The fake cluster, the broker, and a second connection that holds a lock."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeAlias

import psycopg
import pytest
from django.db import connection

from gpuplatform.dev.embedded.processes import wait_until
from gpuplatform.locks import Lock
from tests.fakes.installed import broker, catalogue, cluster

__all__ = ["Hold", "broker", "catalogue", "cluster"]

Hold: TypeAlias = Callable[[Lock, Callable[[], object]], AbstractContextManager[None]]


@pytest.fixture
def hold(transactional_db: None) -> Hold:
    """Hold a lock in another connection until a command waits for it, then release the lock."""
    values = connection.get_connection_params()
    address = {key: values[key] for key in ("host", "port", "user", "password", "dbname")}

    @contextmanager
    def held(lock: Lock, command: Callable[[], object]) -> Iterator[None]:
        def run() -> None:
            command()
            connection.close()

        def is_waiting() -> bool:
            waits = "pg_backend_pid() = ANY(pg_blocking_pids(pid))"
            query = f"SELECT count(*) FROM pg_stat_activity WHERE {waits}"
            return other.execute(query).fetchone() == (1,)

        waiting = threading.Thread(target=run)
        with psycopg.connect(**address, autocommit=True) as other:
            other.execute("SELECT pg_advisory_lock(%s)", [int(lock)])
            waiting.start()
            assert wait_until(is_waiting, 20)
            yield
        waiting.join(30)
        assert not waiting.is_alive()

    return held
