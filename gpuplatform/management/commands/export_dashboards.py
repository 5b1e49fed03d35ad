"""`manage.py export_dashboards`: write the Grafana dashboards to `deploy/monitoring/`."""

from collections.abc import Mapping
from pathlib import Path

from typing_extensions import override

from gpuplatform.deployment.dashboards import DASHBOARDS, dashboard_json
from gpuplatform.management.generated import GeneratedFilesCommand
from gpuplatform.settings.environment import PROJECT_ROOT


class Command(GeneratedFilesCommand):
    """Writes one file for each dashboard."""

    help = "Writes the Grafana dashboards of the declared metrics as JSON."
    source = "gpuplatform/deployment/dashboards.py"
    directory = PROJECT_ROOT / "deploy" / "monitoring" / "dashboards"

    @override
    def files(self, directory: Path) -> Mapping[Path, str]:
        return {directory / f"{one.name}.json": dashboard_json(one) for one in DASHBOARDS}
