"""`manage.py check_consistency`: compare the database with the cluster."""

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import STOCK_POOL
from gpuplatform.kube.modes import get_cluster
from gpuplatform.management.arguments import seconds
from gpuplatform.management.required import cluster_errors
from gpuplatform.operations.consistency import Inconsistency, duplicates, row_inconsistencies
from inventory.models import StockPool
from units.consistency import unit_inconsistencies

PAUSE_SECONDS = 1.0


class Command(BaseCommand):
    """The command `check_consistency`."""

    help = (
        "Compares the database with the cluster and lists leaked, lost, doubled, orphaned and"
        " miscounted objects, and usage that is not charged or charged in excess. Exits with 1 if"
        " there is any such object. Changes nothing."
    )

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--wait",
            type=seconds,
            default=15.0,
            metavar="SECONDS",
            help="Maximum time to wait for operations in progress (default: 15).",
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        until = time.monotonic() + options["wait"]
        with cluster_errors("The cluster could not be read"):
            found = _inconsistencies(get_cluster())
            while found and time.monotonic() < until:
                time.sleep(PAUSE_SECONDS)
                found &= _inconsistencies(get_cluster())
        for inconsistency in sorted(found):
            self.stdout.write(str(inconsistency))
        if found:
            msg = f"Number of inconsistent objects: {len(found)}."
            raise CommandError(msg)
        self.stdout.write("The database and the cluster are consistent.")


def _inconsistencies(cluster: Cluster) -> set[Inconsistency]:
    pools = cluster.list(STOCK_POOL).items
    return {
        *row_inconsistencies(pools, StockPool.objects.all()),
        *duplicates(pools),
        *unit_inconsistencies(cluster),
    }
