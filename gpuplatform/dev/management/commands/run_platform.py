"""`manage.py run_platform`: run the whole platform in one terminal, as `make run` does."""

import os
import sys
from typing import Any

from django.core.management.base import BaseCommand
from typing_extensions import override


class Command(BaseCommand):
    """The command that replaces this process with the runner, which does not load Django."""

    help = "Run all processes of the platform and the embedded servers until Ctrl-C."
    requires_system_checks = ()

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, "-m", "gpuplatform.dev.embedded"])  # noqa: S606
