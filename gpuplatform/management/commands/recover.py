"""`manage.py recover`: import the state of the cluster and start a new epoch."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from gpuplatform.kube.kinds import GPU_UNIT, STOCK_POOL
from gpuplatform.kube.modes import get_cluster
from gpuplatform.locks import Lock, advisory_lock
from gpuplatform.management.required import cluster_errors
from gpuplatform.operations.provenance import applied_operation
from gpuplatform.reconciliation import epoch
from gpuplatform.reconciliation.heartbeats import FRESH_SECONDS, alive_parts
from gpuplatform.tenants.recovery import recover_tenants
from inventory.recovery import recover_pools
from serverless.recovery import recover_functions
from units.recovery import recover_units


class Command(BaseCommand):
    """The command `recover`."""

    help = (
        "Imports the state of the cluster after the database was restored or replaced, and starts"
        " a new epoch. Stop every process of the platform first."
    )

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--dry-run", action="store_true", help="Print the actions without executing them."
        )

        parser.add_argument(
            "--stopped", action="store_true", help="Confirm that every process is stopped."
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        running = sorted(alive_parts())
        if running and not options["dry_run"] and not options["stopped"]:
            msg = (
                f"These parts of the platform are running: {', '.join(running)}. Stop every"
                f" process, wait {FRESH_SECONDS} seconds and run the command again. In"
                " development, run 'make recover' instead."
            )
            raise CommandError(msg)
        # Two concurrent runs could write different epochs to the cluster and the database.
        with cluster_errors("The recovery failed"), advisory_lock(Lock.RECOVERY):
            self._recover(dry_run=options["dry_run"])
        self.stdout.write(
            "Nothing was changed."
            if options["dry_run"]
            else "The recovery is complete. Start the platform again."
        )

    def _recover(self, *, dry_run: bool) -> None:
        cluster = get_cluster()
        for recover in (recover_tenants, recover_pools, recover_units, recover_functions):
            for line in recover(cluster, dry_run=dry_run):
                self.stdout.write(line)
        if not dry_run:
            resources = [*cluster.list(STOCK_POOL).items, *cluster.list(GPU_UNIT).items]
            epoch.renew(cluster, applied=map(applied_operation, resources))
