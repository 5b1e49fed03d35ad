"""What a command requires: a queue, a cluster."""

from django.core.management.base import CommandError

from gpuplatform.errors import PlatformError
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.modes import get_cluster
from serverless.queue.errors import QueueUnavailable
from serverless.queue.gateway import Queue, get_queue


def required_queue() -> Queue:
    """Return the queue of this process; it connects at its first call.

    Raises:
        CommandError: No queue is configured.
    """
    try:
        return get_queue()
    except QueueUnavailable as error:
        raise CommandError(str(error)) from error


def required_cluster() -> Cluster:
    """Return the cluster of this process, without a request to it.

    Raises:
        CommandError: The platform runs without a cluster, or no usable configuration was found.
    """
    try:
        return get_cluster()
    except PlatformError as error:
        raise CommandError(str(error)) from error
