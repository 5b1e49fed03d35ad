"""`manage.py check_consistency`: compare rows and cluster."""

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from gpuplatform.errors import ClusterError, OperatorUnavailable
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import STOCK_POOL
from gpuplatform.kube.modes import get_cluster
from gpuplatform.management.arguments import seconds
from gpuplatform.operations.consistency import Fault, doubled_faults, row_faults
from inventory.models import StockPool
from units.consistency import unit_faults

PAUSE_SECONDS = 1.0


class Command(BaseCommand):
    """Compare rows with the cluster; exit with 1 if there is a fault."""

    help = (
        "Compares the rows with the cluster and lists leaked, lost, doubled and orphaned objects."
        " Exits with 1 if there is any such fault. Changes nothing."
    )

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--wait",
            type=seconds,
            default=15.0,
            metavar="SECONDS",
            help="Time for operations in progress to settle (default: 15).",
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        until = time.monotonic() + options["wait"]
        try:
            faults = _faults(get_cluster())
            while faults and time.monotonic() < until:
                time.sleep(PAUSE_SECONDS)
                faults &= _faults(get_cluster())
        except (ClusterError, OperatorUnavailable) as error:
            msg = f"The cluster could not be read: {error}"
            raise CommandError(msg) from error
        for fault in sorted(faults):
            self.stdout.write(str(fault))
        if faults:
            msg = f"{len(faults)} faults"
            raise CommandError(msg)
        self.stdout.write("rows and cluster agree")


def _faults(cluster: Cluster) -> set[Fault]:
    pools = cluster.list(STOCK_POOL).items
    return {
        *row_faults(pools, StockPool.objects.all()),
        *doubled_faults(pools),
        *unit_faults(cluster),
    }
