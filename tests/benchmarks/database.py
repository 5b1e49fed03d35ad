"""A PostgreSQL server for benchmarks of services in this process, without a cluster or broker."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import django
from django.core.management import call_command

from gpuplatform.dev.embedded.ports import free_port
from gpuplatform.dev.embedded.postgres import Postgres
from gpuplatform.dev.embedded.processes import wait_until

READY_SECONDS = 30.0
STOP_SECONDS = 10.0


@contextmanager
def database() -> Iterator[None]:
    """Start an empty database with all tables, and configure Django for it.

    The writes of the benchmark are durable. No request is sent to a cluster, and messages are
    discarded, because nothing listens on the address of the broker.
    """
    with tempfile.TemporaryDirectory(prefix="gpuplatform-bench-") as folder:
        server = Postgres.prepare(Path(folder), free_port())
        command = server.command()
        process = subprocess.Popen(
            command.argv,
            env=command.env,
            cwd=command.cwd,
            user=command.user[0] if command.user else None,
            group=command.user[1] if command.user else None,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            if not wait_until(server.is_ready, READY_SECONDS):
                raise SystemExit("PostgreSQL did not start")
            os.environ.update(
                DATABASE_URL=server.url,
                REDIS_URL="redis://127.0.0.1:1/0",
                KUBE_MODE="simulated",
                GPUPLATFORM_DEV="1",
                DJANGO_SETTINGS_MODULE="gpuplatform.settings",
            )
            django.setup()
            call_command("migrate", verbosity=0, stdout=sys.stderr)
            yield
        finally:
            process.send_signal(command.stop_signal)
            process.wait(STOP_SECONDS)
