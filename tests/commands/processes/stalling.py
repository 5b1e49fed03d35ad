"""The Celery application with a short time limit for a stalled main loop."""

from celery import signals

from gpuplatform.celery import app

__all__ = ["app"]

STALLED_SECONDS = 3.0


@signals.worker_init.connect
def shorten(**_: object) -> None:
    """Shorten both times after the setup of Django."""
    from gpuplatform.processes import worker  # noqa: PLC0415 - reads the settings

    worker.TICK_SECONDS, worker.STALLED_SECONDS = 0.2, STALLED_SECONDS  # type: ignore[misc]  # constants
