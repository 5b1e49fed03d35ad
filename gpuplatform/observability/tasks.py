"""Celery tasks that concern the whole platform."""

from celery import shared_task

from gpuplatform.observability import reporter, sampler
from gpuplatform.observability.reporter import PlatformTask
from gpuplatform.samples.services import runs_prune, samples_prune


@shared_task(name=PlatformTask.REPORT)
def report_state() -> None:
    """Log the state of the platform."""
    reporter.report()


@shared_task(name=PlatformTask.SAMPLE)
def take_sample() -> None:
    """Store a sample of the platform."""
    sampler.take_sample()


@shared_task(name=PlatformTask.PRUNE_SAMPLES)
def prune_samples() -> None:
    """Delete samples and runs whose retention period has passed."""
    runs_prune()
    samples_prune()
