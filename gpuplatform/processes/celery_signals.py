"""What a Celery process does when it starts and when it ends, by Celery's own signals.

Imported by `gpuplatform.celery`, and so by every process: what reads the settings is loaded later.
"""

import logging
import os
import signal
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import click
from celery import Celery, Task, signals

from gpuplatform.configfile import OPTION, use_config_file
from gpuplatform.metrics.declared import TASK_FAULTS
from gpuplatform.metrics.recorder import count, render
from gpuplatform.processes.pulse import worker_pulse
from gpuplatform.queueing import SCHEDULE_HEADER

if TYPE_CHECKING:
    from gpuplatform.metrics.server import MetricsPort

logger = logging.getLogger(__name__)


def add_config_option(app: Celery) -> None:
    """Let `celery worker` and `celery beat` take `--config FILE`."""
    for command in ("worker", "beat"):
        app.user_options[command].add(
            click.Option(
                [OPTION],
                metavar="FILE",
                is_eager=True,  # Other options have defaults that read the settings.
                expose_value=False,
                callback=_use_config,
                help="YAML file with settings; see docs/configuration.md.",
            )
        )


def _use_config(_context: click.Context, _option: click.Parameter, path: str | None) -> None:
    if path is not None:
        use_config_file(path)


class _Port:
    """The port of /metrics, opened before the worker's copies are made."""

    opened: "MetricsPort | None" = None


@signals.setup_logging.connect
def keep_logging(**_: object) -> None:
    """Leave the log as Django's settings make it; that somebody listens keeps Celery from it."""


@signals.worker_init.connect
def check_cluster(**_: object) -> None:
    """End with a sentence where a cluster is required and none can be found."""
    from gpuplatform.errors import ClusterError  # noqa: PLC0415 - as below
    from gpuplatform.kube.modes import check_configuration  # noqa: PLC0415 - reads the settings

    try:
        check_configuration()
    except ClusterError as error:
        raise SystemExit(str(error)) from error


@signals.worker_init.connect
def open_metrics(**_: object) -> None:
    """Open the port before the copies are made."""
    from gpuplatform.metrics.exported import open_for_copies  # noqa: PLC0415 - reads the settings

    worker_pulse()
    _Port.opened = open_for_copies("worker")


@signals.worker_process_init.connect
def serve_metrics(**_: object) -> None:
    """Answer from each copy, for all of them."""
    if _Port.opened is not None:
        _Port.opened.serve(render, worker_pulse().is_fresh)


@signals.task_prerun.connect
@signals.task_postrun.connect
def keep_connections(**_: object) -> None:
    """Keep the database's connection from task to task; one that is lost or old is replaced.

    To connect takes longer than most of the queries of a task together.
    """
    from django.db import close_old_connections  # noqa: PLC0415 - reads the settings

    close_old_connections()


@signals.task_prerun.connect
def note_begin(sender: "Task[..., object]", task_id: str, **_: object) -> None:
    """Write down that a schedule's task began; what is lost of it is lost to the eye only."""
    from django.db import Error as DatabaseFault  # noqa: PLC0415 - as above

    from gpuplatform.samples.services import run_began  # noqa: PLC0415 - needs the models

    schedule = sender.request.get(SCHEDULE_HEADER)
    if schedule:
        try:
            run_began(task_id, schedule=str(schedule))
        except DatabaseFault as error:
            logger.warning("the begin of %s is not written down: %s", sender.name, error)


@signals.task_postrun.connect
def note_end(
    sender: "Task[..., object]", task_id: str, retval: object = None, **_: object
) -> None:
    """Write down how a schedule's task ended."""
    from django.db import Error as DatabaseFault  # noqa: PLC0415 - as above

    from gpuplatform.samples.services import run_ended  # noqa: PLC0415 - as above

    if sender.request.get(SCHEDULE_HEADER):
        try:
            run_ended(task_id, retval if isinstance(retval, BaseException) else None)
        except DatabaseFault as error:
            logger.warning("the end of %s is not written down: %s", sender.name, error)


@signals.task_failure.connect
def count_fault(sender: "Task[..., object]", **_: object) -> None:
    """Count a task that raised; Celery logs it."""
    count(TASK_FAULTS, task=str(sender.name))


@signals.beat_init.connect
def serve_state(**_: object) -> None:
    """Answer with the state of the whole platform."""
    from gpuplatform.metrics.exported import serve_alone  # noqa: PLC0415 - as above

    serve_alone(_state_render)


def _state_render() -> Callable[[], bytes]:
    from django.db import connection  # noqa: PLC0415 - as above

    from gpuplatform.observability.collectors import state_render  # noqa: PLC0415 - needs the models

    render_state = state_render()

    def rendered() -> bytes:
        try:
            return render_state()
        finally:
            connection.close()  # Of a thread that is asked now and then only.

    return rendered


@signals.worker_shutting_down.connect
def bound_drain(how: str, **_: object) -> None:
    """End a warm shutdown that takes too long: what is under way goes back into its queue.

    Its rows are taken up again when their leases run out.
    """
    from django.conf import settings  # noqa: PLC0415 - as above

    if how == "Warm":
        timer = threading.Timer(
            settings.DRAIN_SECONDS, os.kill, args=(os.getpid(), signal.SIGQUIT)
        )
        timer.daemon = True
        timer.start()
