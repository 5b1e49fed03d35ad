"""What a command cannot do without."""

from django.core.management.base import CommandError

from gpuplatform.errors import PlatformError
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.modes import get_cluster
from serverless.queue.errors import QueueUnavailable
from serverless.queue.gateway import Queue, get_queue


def required_queue() -> Queue:
    """Return the queue of this process; nothing is connected before its first call.

    Raises:
        CommandError: none is configured.
    """
    try:
        return get_queue()
    except QueueUnavailable as error:
        raise CommandError(str(error)) from error


def required_cluster() -> Cluster:
    """Return the cluster of this process; it is not asked anything here.

    Raises:
        CommandError: the platform runs without one, or none can be found.
    """
    try:
        return get_cluster()
    except PlatformError as error:
        raise CommandError(str(error)) from error
