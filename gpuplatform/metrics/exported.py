"""Opens `/metrics` for a process, if its settings give it a port."""

from collections.abc import Callable

from django.conf import settings

from gpuplatform.metrics import recorder
from gpuplatform.metrics.server import MetricsPort


def open_for_copies(name: str) -> MetricsPort | None:
    """Open the port of a process that forks, and count from now on; None without a port.

    Each copy calls `serve(recorder.render)` on it.
    """
    if not settings.METRICS_PORT:
        return None
    port = MetricsPort(settings.METRICS_HOST, settings.METRICS_PORT)
    parent = settings.GPUPLATFORM_DATA / "run" / "metrics" if settings.GPUPLATFORM_DEV else None
    recorder.turn_on(parent, name)
    recorder.render()  # Loads the library once, for all copies.
    return port


def serve_alone(make_render: Callable[[], Callable[[], bytes]]) -> None:
    """Serve what `make_render` returns, for a process that does not fork; nothing without a port.

    It is called only where there is a port, so that nothing is loaded elsewhere.
    """
    if settings.METRICS_PORT:
        MetricsPort(settings.METRICS_HOST, settings.METRICS_PORT).serve(make_render())
