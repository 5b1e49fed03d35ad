"""Celery tasks of the serverless app. Safe to lose, to repeat, and beside themselves."""

from celery import shared_task

from serverless.services import ServerlessTask, invocations_prune


@shared_task(name=ServerlessTask.PRUNE)
def prune_invocations() -> None:
    """Forget invocations and functions that are old."""
    invocations_prune()
