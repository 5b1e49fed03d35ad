"""Running the same thing at the same moment on database connections of their own."""

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from django.db import connection

T = TypeVar("T")
DEADLINE_SECONDS = 60.0


def at_once(jobs: Sequence[Callable[[], T]]) -> list[T | Exception]:
    """Start every job at one barrier; return what each gave or raised, in their order."""
    barrier = threading.Barrier(len(jobs), timeout=DEADLINE_SECONDS)
    results: list[T | Exception] = [TimeoutError("it did not end")] * len(jobs)

    def work(number: int) -> None:
        try:
            with connection.cursor() as cursor:
                # All threads of one process get on more slowly than requests of production.
                cursor.execute("SET lock_timeout = '20s'")
            barrier.wait()
            results[number] = jobs[number]()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            results[number] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
    return results
