"""`manage.py run_activator`: the process that starts and stops the workers of functions."""

import os
import signal
import socket
import threading
import uuid
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from gpuplatform.kube.modes import get_cluster
from gpuplatform.metrics.exported import serve_alone
from serverless.activator import Activator
from serverless.queue.errors import QueueUnavailable
from serverless.queue.gateway import get_queue


class Command(BaseCommand):
    """Run until SIGTERM or SIGINT; then give the lease back and end."""

    help = "Starts workers for waiting invocations and stops idle ones; one of N is active."

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        try:
            queue = get_queue()
        except QueueUnavailable as error:
            raise CommandError(str(error)) from error
        serve_alone(lambda: bytes)  # Only to say that it lives.
        identity = f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"
        try:
            Activator(queue, get_cluster(), identity).run(stop)
        finally:
            queue.close()
