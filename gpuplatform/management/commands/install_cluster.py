"""`manage.py install_cluster`: install what the platform needs in the cluster."""

import time
from typing import Any

import yaml
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from gpuplatform.deployment.installation import CRDS, manifests
from gpuplatform.deployment.permissions import manifests as account_manifests
from gpuplatform.errors import ClusterError, OperatorUnavailable
from gpuplatform.kube.deadline import deadline
from gpuplatform.kube.kinds import CUSTOM_RESOURCE_DEFINITION
from gpuplatform.kube.modes import get_cluster

READY_SECONDS = 30.0


class Command(BaseCommand):
    """Apply namespaces, priority classes and resource definitions. Idempotent."""

    help = "Applies namespaces, priority classes and resource definitions (server-side apply)."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--dry-run", action="store_true", help="Print the manifests; change nothing."
        )
        parser.add_argument(
            "--accounts",
            action="store_true",
            help="Also apply the ServiceAccounts of the processes with their rights.",
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        wanted = list(manifests(settings.GPUPLATFORM_SYSTEM_NAMESPACE))
        if options["accounts"]:
            wanted += account_manifests(settings.GPUPLATFORM_SYSTEM_NAMESPACE)
        if options["dry_run"]:
            self.stdout.write(yaml.safe_dump_all([m for _, m in wanted], sort_keys=False))
            return
        try:
            cluster = get_cluster()
            with deadline(READY_SECONDS):
                for kind, manifest in wanted:
                    cluster.apply(kind, manifest)
                    self.stdout.write(f"applied {kind.kind} {manifest['metadata']['name']}")
                for crd in CRDS:
                    self._wait_until_served(crd["metadata"]["name"])
        except (ClusterError, OperatorUnavailable) as error:
            msg = f"The installation in the cluster failed: {error}"
            raise CommandError(msg) from error

    def _wait_until_served(self, name: str) -> None:
        """Wait until the API server serves the new kind; the deadline ends the wait."""
        cluster = get_cluster()
        while True:
            found = cluster.get(CUSTOM_RESOURCE_DEFINITION, name) or {}
            conditions = (found.get("status") or {}).get("conditions") or []
            if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
                return
            time.sleep(0.1)
