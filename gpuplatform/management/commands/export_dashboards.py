"""Writes the Grafana dashboards to `deploy/monitoring/dashboards`; `--check` only compares."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from typing_extensions import override

from gpuplatform.deployment.dashboards import DASHBOARDS, dashboard_json
from gpuplatform.management.generated import check_files, write_files
from gpuplatform.settings.environment import PROJECT_ROOT

SOURCE = "gpuplatform/deployment/dashboards.py"


class Command(BaseCommand):
    """Needs neither a database nor a cluster."""

    help = "Write the Grafana dashboards of the declared metrics as JSON."
    requires_system_checks = ()

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--check", action="store_true", help="write nothing; fail on a difference"
        )
        parser.add_argument(
            "--directory", type=Path, default=PROJECT_ROOT / "deploy" / "monitoring" / "dashboards"
        )

    @override
    def handle(self, *_args: Any, **options: Any) -> None:
        wanted = _files(options["directory"])
        if options["check"]:
            check_files(wanted, SOURCE)
            self.stdout.write("The dashboards match the declared metrics.")
            return
        for path in write_files(wanted):
            self.stdout.write(f"wrote {path}")


def _files(directory: Path) -> Mapping[Path, str]:
    return {directory / f"{one.name}.json": dashboard_json(one) for one in DASHBOARDS}
