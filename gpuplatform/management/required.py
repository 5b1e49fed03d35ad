"""The queue and the cluster of a command. Errors become `CommandError`."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.management.base import CommandError

from gpuplatform.errors import OperatorUnavailable, PlatformError
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.errors import ClusterError
from gpuplatform.kube.modes import get_cluster
from serverless.queue.errors import QueueUnavailable
from serverless.queue.gateway import Queue, get_queue


def required_queue() -> Queue:
    """Return the queue of this process. It connects on first use.

    Raises:
        CommandError: If no queue is configured.
    """
    try:
        return get_queue()
    except QueueUnavailable as error:
        raise CommandError(str(error)) from error


def required_cluster() -> Cluster:
    """Return the cluster of this process without sending a request to it.

    Raises:
        CommandError: If the platform runs without a cluster or its configuration is not valid.
    """
    try:
        return get_cluster()
    except PlatformError as error:
        raise CommandError(str(error)) from error


@contextmanager
def cluster_errors(problem: str) -> Iterator[None]:
    """Convert an error of the cluster within the block to a `CommandError`.

    Raises:
        CommandError: If the cluster returns an error or does not respond. The message starts with
            `problem`.
    """
    try:
        yield
    except (ClusterError, OperatorUnavailable) as error:
        msg = f"{problem}: {error}"
        raise CommandError(msg) from error
