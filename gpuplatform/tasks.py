"""Celery tasks that belong to no single app."""

from celery import shared_task

from gpuplatform import reporter
from gpuplatform.reporter import PlatformTask


@shared_task(name=PlatformTask.REPORT)
def report_state() -> None:
    """Log the steady state of the platform."""
    reporter.report()
