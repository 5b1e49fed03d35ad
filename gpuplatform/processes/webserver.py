"""The configuration of gunicorn: `gunicorn --config python:gpuplatform.processes.webserver`.

The values come from the settings of the platform.
"""

import gc
import os
import resource
from typing import Final

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuplatform.settings")
os.environ.setdefault("GPUPLATFORM_ROLE", "web")

from django.conf import settings

from gpuplatform.api.document import openapi_document
from gpuplatform.kube.errors import ClusterError
from gpuplatform.kube.modes import check_configuration
from gpuplatform.metrics.server import open_before_fork, serve_in_child
from gpuplatform.observability.readiness import probed_readiness
from gpuplatform.processes.webworker import Worker

MIN_CONNECTIONS, MAX_CONNECTIONS, SPARE_DESCRIPTORS = 50, 1000, 200


def _most_connections() -> int:
    """Return the limit on connections of a worker, and allow a descriptor for each of them.

    The rest of the descriptors is for files, databases and other servers.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + SPARE_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    most = MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else soft - SPARE_DESCRIPTORS
    return max(min(most, MAX_CONNECTIONS), MIN_CONNECTIONS)


wsgi_app: Final = "gpuplatform.wsgi"
logger_class: Final = "gpuplatform.processes.webworker.Logger"
worker_class: Final = "gpuplatform.processes.webworker.Worker"
asgi_loop: Final = "asyncio"
worker_connections: Final = _most_connections()
preload_app: Final = True
graceful_timeout: Final = settings.DRAIN_SECONDS
control_socket_disable: Final = True
forwarded_allow_ips: Final = ",".join(map(str, settings.TRUSTED_PROXIES))
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


def post_fork(_: object, worker: Worker) -> None:
    """Prepare a new worker."""
    serve_in_child(worker.is_running, probed_readiness)
