"""The Celery application with a short limit for a main loop that is stuck."""

from celery import signals

from gpuplatform.celery import app

__all__ = ["app"]

STALLED_SECONDS = 3.0


@signals.worker_init.connect
def shorten(**_: object) -> None:
    """Shorten both times, once Django is set up."""
    from gpuplatform.processes import worker  # noqa: PLC0415 - reads the settings

    worker.TICK_SECONDS, worker.STALLED_SECONDS = 0.2, STALLED_SECONDS  # type: ignore[misc]  # constants
