"""Python programs as copies of a runner that has loaded the libraries once; Linux only.

Eight interpreters that each load Django and Celery cost 35 seconds of CPU and a gigabyte; copies
cost a quarter of it. Only libraries are loaded before the fork: each copy reads its own settings
and the platform's code, and runs what `python ARGUMENTS` would run, under that name.
"""

import ctypes
import gc
import importlib
import os
import runpy
import signal
import sys
import warnings
from collections.abc import Sequence

from setproctitle import getproctitle, setproctitle

from gpuplatform.dev.embedded.children import RUN_VARIABLE, Command, die_with_parent

LIBRARIES = (
    "celery.apps.beat",
    "celery.apps.worker",
    "celery.bin.celery",
    "celery.concurrency.prefork",
    "celery.fixups.django",
    "celery.worker.consumer",
    "cron_descriptor",
    "csp.middleware",
    "dj_database_url",
    "django.contrib.admin.options",
    "django.contrib.staticfiles.storage",
    "django.core.handlers.wsgi",
    "django.core.management.commands.migrate",
    "django.db.backends.postgresql.base",
    "django.template.loader",
    "django.views.debug",
    "drf_spectacular.utils",
    "gunicorn.app.wsgiapp",
    "gunicorn.workers.gthread",
    "kombu.transport.redis",
    "kubernetes.client",
    "kubernetes.config",
    "kubernetes.dynamic",
    "nats.js.client",
    "psycopg_pool",
    "pydantic_settings",
    "rest_framework.permissions",
    "rest_framework.serializers",
    "whitenoise.middleware",
    "yaml",
)
"""What all or most processes need and what loads without Django's settings."""

_M_ARENA_MAX = -8
_HELD_BACK = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def load_libraries() -> bool:
    """Load them and set the memory aside from the collector, so that copies keep sharing it."""
    # What MALLOC_ARENA_MAX and PYTHONWARNINGS are to a new interpreter.
    ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)
    warnings.filterwarnings("ignore", message="You're running the worker with superuser")
    for name in LIBRARIES:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    return True


class BecomeChild(BaseException):
    """Raised in a copy; ends the runner's part of it, up to where `run` is called."""

    def __init__(self, command: Command) -> None:
        """`command` is what the copy runs."""
        super().__init__()
        self.command = command


def fork(command: Command, run: str, output: int) -> int:
    """Return the process number of a copy, in the runner.

    Raises:
        BecomeChild: this is the copy, a group leader whose output goes to `output`.
    """
    parent = os.getpid()
    # Finds the memory of the name, which it cannot once the environment has been replaced.
    getproctitle()
    # A signal for the copy waits until the runner's handlers are gone from it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD_BACK)
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return pid
    os.setsid()
    die_with_parent(command.stop_signal)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, standard in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(descriptor, standard)
    os.close(nothing)
    os.environ.clear()
    os.environ.update(command.env)
    os.environ[RUN_VARIABLE] = run
    raise BecomeChild(command)


def run(command: Command) -> None:
    """Run the program of a Python command in this process, as its main program."""
    # What the runner had open ends here: objects first, so that none of them closes later what is
    # the program's by then, then the bare numbers.
    gc.collect()
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD_BACK)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # text streams have it
    if command.cwd:
        os.chdir(command.cwd)
    setproctitle(" ".join(command.argv))
    _run_program(command.argv[1:])


def _run_program(arguments: Sequence[str]) -> None:
    if arguments[0] == "-m":
        sys.argv = list(arguments[1:])
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(arguments)
        runpy.run_path(arguments[0], run_name="__main__")
