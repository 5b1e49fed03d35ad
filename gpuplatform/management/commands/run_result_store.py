"""`manage.py run_result_store`: puts invocations into the queue and stores their results."""

import threading
from collections.abc import Callable
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from gpuplatform.management.required import required_queue
from gpuplatform.metrics.server import serve
from gpuplatform.processes.process import stop_on_signals
from gpuplatform.reconciliation.heartbeats import FRESH_SECONDS, Part, report_heartbeat
from serverless.loops.dead_letters import DeadLetters
from serverless.loops.relay import Relay
from serverless.loops.repeat import run_repeatedly
from serverless.loops.result_store import ResultStore
from serverless.loops.sweep import SWEEP_SECONDS, Sweep

HEARTBEAT_SECONDS: Final = FRESH_SECONDS / 8


class Command(BaseCommand):
    """Run until SIGTERM or SIGINT; what is not finished then, another process does."""

    help = "Relays invocations to the queue and stores their results; any number may run."

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        stop = stop_on_signals()
        queue = required_queue()
        serve(lambda: bytes)  # An empty page: only to say that it lives.
        sweep = Sweep(queue)

        def sweep_once() -> None:
            sweep.step()
            stop.wait(SWEEP_SECONDS)

        def report_heartbeat_once() -> None:
            report_heartbeat(Part.RESULTS)
            stop.wait(HEARTBEAT_SECONDS)

        loops = [
            _Loop("life", report_heartbeat_once, stop),
            _Loop("relay", Relay(queue).step, stop),
            _Loop("result store", ResultStore(queue).step, stop),
            _Loop("dead letters", DeadLetters(queue).step, stop),
            _Loop("sweep", sweep_once, stop),
        ]
        for loop in loops:
            loop.start()
        stop.wait()
        for loop in loops:
            loop.join()
        queue.close()
        if failed := [loop.name for loop in loops if not loop.has_ended]:
            raise CommandError(f"A fault of ours ended: {', '.join(failed)}. See the log above.")


class _Loop(threading.Thread):
    """One of the process's loops; the fault of one ends them all, and the process is restarted."""

    def __init__(self, name: str, step: Callable[[], object], stop: threading.Event) -> None:
        super().__init__(name=name)
        self._step = step
        self._stop_event = stop
        self.has_ended = False

    @override
    def run(self) -> None:
        try:
            run_repeatedly(self._step, self._stop_event, self.name)
            self.has_ended = True
        finally:
            self._stop_event.set()
