"""Celery tasks for functions and invocations. They can be lost, repeated and run concurrently."""

from celery import shared_task

from serverless.services.invocations import invocations_prune
from serverless.services.names import ServerlessTask
from serverless.services.usage import invocation_usage_update


@shared_task(name=ServerlessTask.PRUNE)
def prune_invocations() -> None:
    """Delete the rows of invocations and functions after their retention."""
    invocations_prune()


@shared_task(name=ServerlessTask.RECORD_USAGE)
def record_invocation_usage() -> None:
    """Compute and seal the hourly usage records of invocations."""
    invocation_usage_update()
