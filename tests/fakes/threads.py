"""Concurrent calls in threads with separate database connections."""

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from django.db import connection

T = TypeVar("T")
DEADLINE_SECONDS = 60.0


def at_once(jobs: Sequence[Callable[[], T]]) -> list[T | Exception]:
    """Start all jobs at a barrier; return the result or exception of each, in order."""
    barrier = threading.Barrier(len(jobs), timeout=DEADLINE_SECONDS)
    results: list[T | Exception] = [TimeoutError("it did not end")] * len(jobs)

    def work(number: int) -> None:
        try:
            with connection.cursor() as cursor:
                # Threads are slower than requests in production.
                cursor.execute("SET lock_timeout = '20s'")
            barrier.wait()
            results[number] = jobs[number]()
        except Exception as error:  # noqa: BLE001 - the test checks it
            results[number] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
    return results
