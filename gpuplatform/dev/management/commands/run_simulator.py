"""`manage.py run_simulator`: run the API server of the simulated cluster."""

import argparse
import sys
from typing import Any

from django.core.management.base import BaseCommand
from typing_extensions import override

from gpuplatform.dev.simulator.apiserver.__main__ import add_arguments, run


class Command(BaseCommand):
    """The command that runs the API server until SIGTERM.

    `python -m gpuplatform.dev.simulator.apiserver` does the same and uses less memory.
    """

    help = "Run the simulated Kubernetes API server on loopback (development mode only)."
    requires_system_checks: list[str] = []  # noqa: RUF012 - as in Django

    @override
    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_arguments(parser)

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        sys.exit(run(argparse.Namespace(**options)))
