"""The configuration of gunicorn: `gunicorn --config python:gpuplatform.processes.webserver`.

The values come from the settings of the platform.
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
"""Empty, so that no request header can set the path or its prefix."""


def on_starting(_: object) -> None:
    """Prepare the parent process.

    Gunicorn calls this once, after it has loaded the application.
    """
    try:
        check_configuration()
    except ClusterError as error:
        raise SystemExit(str(error)) from error
    openapi_document()  # Imports all views before the fork, so that the workers share them.
    open_before_fork("web")
    # The garbage collector ignores these objects, so that the workers share their memory.
    gc.collect()
    gc.freeze()


def post_fork(_: object, __: object) -> None:
    """Prepare a new worker."""
    serve_in_child()
