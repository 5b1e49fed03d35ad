"""`manage.py reconcile_all`: reconcile all resources whose state differs from their specs."""

from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import Manifest
from gpuplatform.kube.modes import get_cluster
from gpuplatform.management.required import cluster_errors
from gpuplatform.operations.consistency import full_name
from gpuplatform.planning.plan import Action, Apply, Create, Delete, Patch, Plan
from gpuplatform.queueing import Queue, enqueue_missed
from gpuplatform.reconciliation import epoch, gate
from gpuplatform.reconciliation.driver import status_fields
from inventory.reconcile import compare_all as compare_pools
from inventory.reconcile import unsettled_pools
from inventory.services.pools import InventoryTask
from units.comparison import compare_all as compare_units
from units.comparison import unsettled_units
from units.services.names import UnitTask


class Command(BaseCommand):
    """The command `reconcile_all`."""

    help = "Compares the cluster with rows and specs, and enqueues the resources that differ."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--dry-run", action="store_true", help="Print the actions without executing them."
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        with cluster_errors("The cluster could not be read"):
            cluster = get_cluster()
            if options["dry_run"]:
                self._print_plans(cluster)
            else:
                self._enqueue(cluster)

    def _print_plans(self, cluster: Cluster) -> None:
        found = 0
        for resource, plan in (*unsettled_pools(cluster), *unsettled_units(cluster)):
            found += 1
            self.stdout.write(f"{resource['kind']} {full_name(resource)}")
            for line in _lines(resource, plan):
                self.stdout.write(f"  {line}")
        self.stdout.write(f"{found} resources differ. Nothing was changed.")

    def _enqueue(self, cluster: Cluster) -> None:
        if gate.cluster_state().recovery_reason or not epoch.matches():
            msg = (
                "The epochs of the cluster and the database differ. Stop the platform and run"
                f" '{epoch.recovery_command()}'."
            )
            raise CommandError(msg)
        pools, units = set(compare_pools(cluster)), set(compare_units(cluster))
        enqueue_missed(InventoryTask.RECONCILE_POOL, sorted(pools), queue=Queue.RECONCILE)
        enqueue_missed(UnitTask.RECONCILE_UNIT, sorted(units), queue=Queue.RECONCILE)
        self.stdout.write(f"Enqueued {len(pools)} pools and {len(units)} units.")


def _lines(resource: Manifest, plan: Plan) -> Iterator[str]:
    for action in plan.actions:
        yield _describe(action)
    if plan.status is not None:
        fields = status_fields(resource, plan.status)
        reason = next((c["reason"] for c in fields["conditions"] if c["type"] == "Ready"), "")
        yield f"status: {plan.status.phase} {reason}".rstrip()


def _describe(action: Action) -> str:
    verb = type(action).__name__.lower()
    match action:
        case Create(kind, manifest) | Apply(kind, manifest):
            return f"{verb} {kind.kind} {full_name(manifest)}"
        case Patch(kind, namespace, name) | Delete(kind, namespace, name):
            return f"{verb} {kind.kind} {namespace}/{name}"
