"""`manage.py run_kubelet`: run simulated nodes on the cluster that a kubeconfig selects."""

import os
import sys
from argparse import ArgumentParser
from dataclasses import fields
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand
from typing_extensions import override

from gpuplatform.dev.simulator.kubelet.__main__ import add_arguments
from gpuplatform.dev.simulator.kubelet.options import Options


class Command(BaseCommand):
    """The command that replaces this process with the simulated kubelet, without Django."""

    help = "Run simulated nodes with GPUs on a Kubernetes API server."
    requires_system_checks = ()

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        add_arguments(parser)

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        root = str(Path(__file__).resolve().parents[4])
        module = [sys.executable, "-m", "gpuplatform.dev.simulator.kubelet"]
        shape = [
            f"--{option.name.removesuffix('_seconds').replace('_', '-')}={options[option.name]}"
            for option in fields(Options)
        ]
        kubeconfig = f"--kubeconfig={options['kubeconfig'].absolute()}"
        environment = os.environ | {"PYTHONPATH": root}
        os.execve(  # noqa: S606 - no shell is wanted
            sys.executable, [*module, kubeconfig, *shape], environment
        )
