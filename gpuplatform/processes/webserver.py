"""Configuration of gunicorn for the web process.

Used as `gunicorn --config python:gpuplatform.processes.webserver`. The platform's own settings
come from the environment and the file of `GPUPLATFORM_CONFIG`, as in every process.
"""

import gc
import os
from typing import Final

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuplatform.settings")
os.environ.setdefault("GPUPLATFORM_ROLE", "web")

from django.conf import settings

from gpuplatform.api.document import openapi_document
from gpuplatform.errors import ClusterError
from gpuplatform.kube.modes import check_configuration
from gpuplatform.metrics.server import open_before_fork, serve_in_child

wsgi_app: Final = "gpuplatform.wsgi"
logger_class: Final = "gpuplatform.processes.webworker.Logger"
worker_class: Final = "gpuplatform.processes.webworker.Worker"
threads: Final = settings.WEB_THREADS
preload_app: Final = True
graceful_timeout: Final = settings.DRAIN_SECONDS
control_socket_disable: Final = True
forwarder_headers: Final = ""
"""Empty: no header of a request can set the path prefix or the path."""


def on_starting(_: object) -> None:
    """Prepare the parent of the workers; called once, after the application is loaded."""
    try:
        check_configuration()
    except ClusterError as error:
        raise SystemExit(str(error)) from error
    openapi_document()  # The workers share it; this also loads every view before the fork.
    open_before_fork("web")
    # Later collections skip the objects that exist now: no request waits for a full collection,
    # and the workers keep sharing this memory.
    gc.collect()
    gc.freeze()


def post_fork(_: object, __: object) -> None:
    """Prepare a new worker."""
    serve_in_child()
