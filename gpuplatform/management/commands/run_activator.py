"""`manage.py run_activator`: run the process that starts and stops workers of functions."""

from typing import Any

from django.core.management.base import BaseCommand
from typing_extensions import override

from gpuplatform.management.required import required_cluster, required_queue
from gpuplatform.metrics.server import serve
from gpuplatform.observability.collectors import activator_render
from gpuplatform.processes.process import own_identity, stop_on_signals
from serverless.loops.activator import Activator


class Command(BaseCommand):
    """The command `run_activator`. On SIGTERM or SIGINT, it releases the lease and exits."""

    help = "Starts workers for queued invocations and stops idle workers. One replica is active."

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        stop = stop_on_signals()
        queue = required_queue()
        activator = Activator(queue, required_cluster(), own_identity())
        serve(lambda: activator_render(activator))
        try:
            activator.run(stop)
        finally:
            queue.close()
