"""`manage.py run_result_store`: publish invocations, store their results, and send webhooks."""

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
from serverless.loops.expiry import EXPIRY_SECONDS, Expiry
from serverless.loops.relay import Relay
from serverless.loops.repeat import run_repeatedly
from serverless.loops.result_store import ResultStore
from serverless.loops.sweep import SWEEP_SECONDS, Sweep
from serverless.loops.webhooks import Webhooks

HEARTBEAT_SECONDS: Final = FRESH_SECONDS / 8


class Command(BaseCommand):
    """The command `run_result_store`. It exits on SIGTERM or SIGINT."""

    help = (
        "Publishes invocations to the queue, stores their results and sends webhooks. Replicas"
        " share the work."
    )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        stop = stop_on_signals()
        queue = required_queue()
        serve(lambda: bytes)  # Only /livez is used, so /metrics is empty.
        sweep, expiry, webhooks = Sweep(queue), Expiry(queue), Webhooks()

        def sweep_once() -> None:
            sweep.step()
            stop.wait(SWEEP_SECONDS)

        def expire_once() -> None:
            expiry.step()
            stop.wait(EXPIRY_SECONDS)

        def report_heartbeat_once() -> None:
            report_heartbeat(Part.RESULTS)
            stop.wait(HEARTBEAT_SECONDS)

        loops = [
            _Loop("heartbeat", report_heartbeat_once, stop),
            _Loop("relay", Relay(queue).step, stop),
            _Loop("result store", ResultStore(queue).step, stop),
            _Loop("dead letters", DeadLetters(queue).step, stop),
            _Loop("sweep", sweep_once, stop),
            _Loop("expiry", expire_once, stop),
            _Loop("webhooks", webhooks.step, stop, webhooks.finish),
        ]
        for loop in loops:
            loop.start()
        stop.wait()
        for loop in loops:
            loop.join()
        queue.close()
        if failed := [loop.name for loop in loops if not loop.has_ended]:
            raise CommandError(
                f"Unexpected errors stopped: {', '.join(failed)}. See the log for the causes."
            )


class _Loop(threading.Thread):
    """A loop of the process. An unexpected error in a loop stops all loops."""

    def __init__(
        self,
        name: str,
        step: Callable[[], object],
        stop: threading.Event,
        finish: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(name=name)
        self._step, self._finish = step, finish
        self._stop_event = stop
        self.has_ended = False

    @override
    def run(self) -> None:
        try:
            run_repeatedly(self._step, self._stop_event, self.name)
            self._finish()
            self.has_ended = True
        finally:
            self._stop_event.set()
