"""Celery tasks for functions and invocations. They can be lost, repeated and run concurrently."""

from celery import shared_task

from serverless.services.invocations import invocations_prune
from serverless.services.names import ServerlessTask


@shared_task(name=ServerlessTask.PRUNE)
def prune_invocations() -> None:
    """Delete the rows of invocations and functions after their retention."""
    invocations_prune()
