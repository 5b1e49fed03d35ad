"""Celery tasks that belong to no single app."""

from celery import shared_task

from gpuplatform.observability import reporter, sampler
from gpuplatform.observability.reporter import PlatformTask
from gpuplatform.samples.services import runs_prune, samples_prune


@shared_task(name=PlatformTask.REPORT)
def report_state() -> None:
    """Log the steady state of the platform."""
    reporter.report()


@shared_task(name=PlatformTask.SAMPLE)
def take_sample() -> None:
    """Keep how the platform stands."""
    sampler.take_sample()


@shared_task(name=PlatformTask.PRUNE_SAMPLES)
def prune_samples() -> None:
    """Forget what was kept of the past for long enough."""
    runs_prune()
    samples_prune()
