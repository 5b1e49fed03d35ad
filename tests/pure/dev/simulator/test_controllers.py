"""Controllers continue when the synchronization of one object fails."""

import asyncio
from collections.abc import Callable

from typing_extensions import override

from gpuplatform.dev.simulator.apiserver.controllers.loop import Controller
from gpuplatform.dev.simulator.apiserver.objects import Manifest, set_condition
from gpuplatform.dev.simulator.apiserver.resources import Registry
from gpuplatform.dev.simulator.apiserver.store import Change, Key, Store
from gpuplatform.dev.simulator.apiserver.writes import Writer

ODD: Key = ("", "pods", "default", "odd")
GOOD: Key = ("", "pods", "default", "good")


class Recorder(Controller):
    """A controller that fails for one object at first."""

    def __init__(self) -> None:
        super().__init__(Writer(Store(None), Registry()))
        self.calls: list[str] = []

    @override
    def observe(self, change: Change) -> None:
        self.add(change.entry.key)

    @override
    def sync(self, key: Key) -> None:
        self.calls.append(key[3])
        if self.calls == ["odd"]:
            raise KeyError("type")


def test_an_odd_object_is_retried_and_others_continue() -> None:
    async def calls() -> list[str]:
        recorder = Recorder()
        recorder.add(ODD)
        recorder.add(GOOD)
        running = asyncio.create_task(recorder.run())
        await _until(lambda: len(recorder.calls) == 3)
        running.cancel()
        return recorder.calls

    assert asyncio.run(calls()) == ["odd", "good", "odd"]


async def _until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not met():  # noqa: ASYNC110 - a condition with a deadline
            await asyncio.sleep(0.01)


def test_a_condition_without_a_type_is_kept() -> None:
    status: Manifest = {"conditions": [{}, {"type": "Available"}]}

    set_condition(status, {"type": "Available", "status": "True"})

    assert [one.get("status") for one in status["conditions"]] == [None, "True"]
