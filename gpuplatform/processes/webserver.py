"""Settings of gunicorn for the web process.

Used as `gunicorn --config python:gpuplatform.processes.webserver`.

The platform's own settings come as everywhere, by the environment and `GPUPLATFORM_CONFIG`.
"""

import gc
import os
from typing import Final

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuplatform.settings")
os.environ.setdefault("GPUPLATFORM_ROLE", "web")

from django.conf import settings

from gpuplatform.errors import ClusterError
from gpuplatform.kube.modes import check_configuration
from gpuplatform.metrics.server import open_before_fork, serve_in_child

wsgi_app: Final = "gpuplatform.wsgi"
worker_class: Final = "gpuplatform.processes.webworker.Worker"
threads: Final = settings.WEB_THREADS
preload_app: Final = True
graceful_timeout: Final = settings.DRAIN_SECONDS
control_socket_disable: Final = True
forwarder_headers: Final = ""
"""None: what stands before an address, and the address itself, no header of a request can say."""


def on_starting(_: object) -> None:
    """Gunicorn calls it once, in the process that makes the workers."""
    try:
        check_configuration()
    except ClusterError as error:
        raise SystemExit(str(error)) from error
    open_before_fork("web")


def post_fork(_: object, __: object) -> None:
    """Gunicorn calls it in each new worker."""
    # What was loaded before stays for ever: each full collection would look through all of it, and
    # a request would wait for that.
    gc.freeze()
    serve_in_child()
