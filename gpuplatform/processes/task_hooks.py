"""Celery hooks of all tasks: database connections, records of scheduled runs, failures."""

import logging

from celery import Task, signals
from django.db import Error as DatabaseFault
from django.db import close_old_connections

from gpuplatform.metrics.declared import TASK_ERRORS
from gpuplatform.metrics.recorder import count
from gpuplatform.queueing import SCHEDULE_HEADER
from gpuplatform.samples.services import run_began, run_ended

logger = logging.getLogger(__name__)


@signals.task_prerun.connect
@signals.task_postrun.connect
def keep_connections(**_: object) -> None:
    """Keep the database connection between tasks, unless it is lost or too old.

    Opening a connection takes longer than most tasks.
    """
    close_old_connections()


@signals.task_prerun.connect
def record_begin(sender: "Task[..., object]", task_id: str, **_: object) -> None:
    """Record the start of a scheduled task for the admin. Database errors are logged."""
    schedule = sender.request.get(SCHEDULE_HEADER)
    if schedule:
        try:
            run_began(task_id, schedule=str(schedule))
        except DatabaseFault as error:
            logger.warning("the start of %s was not recorded: %s", sender.name, error)


@signals.task_postrun.connect
def record_end(
    sender: "Task[..., object]", task_id: str, retval: object = None, **_: object
) -> None:
    """Record the end of a scheduled task for the admin. Database errors are logged."""
    if sender.request.get(SCHEDULE_HEADER):
        try:
            run_ended(task_id, retval if isinstance(retval, BaseException) else None)
        except DatabaseFault as error:
            logger.warning("the end of %s was not recorded: %s", sender.name, error)


@signals.task_failure.connect
def count_failure(sender: "Task[..., object]", **_: object) -> None:
    """Count a task that raised an exception. Celery logs the exception."""
    count(TASK_ERRORS, task=str(sender.name))
