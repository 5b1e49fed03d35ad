"""`manage.py run_controller`: run the process that watches the cluster."""

from typing import Any

from django.core.management.base import BaseCommand
from typing_extensions import override

from gpuplatform.kube.modes import get_watch_cluster
from gpuplatform.management.required import required_cluster
from gpuplatform.metrics.server import serve
from gpuplatform.observability.collectors import controller_render
from gpuplatform.processes.controller import Controller
from gpuplatform.processes.process import own_identity, stop_on_signals


class Command(BaseCommand):
    """The command `run_controller`. On SIGTERM or SIGINT, it releases the lease and exits."""

    help = "Watches the cluster, updates the mirror and marks rows due. One replica is active."

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        stop = stop_on_signals()
        controller = Controller(required_cluster(), get_watch_cluster(), own_identity())
        serve(lambda: controller_render(controller))
        controller.run(stop)
