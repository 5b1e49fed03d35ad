"""A value per process: threads share it, child processes do not."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from gpuplatform.process_local import ProcessLocal, ProcessThreads


def test_every_thread_gets_the_same_value() -> None:
    holder = ProcessLocal(object)

    with ThreadPoolExecutor(3) as threads:
        values = {id(value) for value in threads.map(lambda _: holder.get(), range(9))}

    assert values == {id(holder.get())}


def test_a_failed_creation_is_retried() -> None:
    answers = ["created"]
    failures = [ConnectionError()]

    def create() -> str:
        if failures:
            raise failures.pop()
        return answers.pop()

    holder = ProcessLocal(create)
    with pytest.raises(ConnectionError):
        holder.get()

    assert holder.get() == "created"


def test_a_value_that_was_popped_is_created_again() -> None:
    holder = ProcessLocal(object)
    assert holder.pop() is None
    first = holder.get()

    assert holder.pop() is first
    assert holder.get() is not first


def test_a_child_creates_its_own_value_although_the_lock_was_held() -> None:
    holder = ProcessLocal(object)
    value = holder.get()
    with holder._lock:
        pid = os.fork()
        if pid == 0:
            os._exit(0 if holder.get() is not value else 1)

    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert holder.get() is value


def test_calls_run_in_threads_with_the_name_of_the_pool() -> None:
    threads = ProcessThreads(1, "hints")

    name = threads.submit(lambda: threading.current_thread().name).result(timeout=5)

    assert name.startswith("hints")
