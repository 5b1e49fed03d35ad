"""The path to a stock pool in this process: services, drivers, a real API server."""

import threading
import time
from collections.abc import Callable
from typing import Any

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import STOCK_POOL, Manifest, ResourceKind
from gpuplatform.kube.modes import get_cluster
from gpuplatform.operations import driver as operations
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.operations.services import Accepted
from gpuplatform.reconciliation import driver, event_writer, gate
from gpuplatform.reconciliation.leases import mark_due
from gpuplatform.tenancy.models import Tenant
from inventory.mirror import POOL_MIRROR
from inventory.models import StockPool
from inventory.reconcile import POOLS
from inventory.requests.pools import StockPoolCreate
from inventory.services.pools import pool_create, pool_request_deletion

WAIT_SECONDS = 45.0
FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.1, 0.5


class Pools:
    """Stock pools in one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.tenant, _ = Tenant.objects.get_or_create(
            name="default", defaults={"namespace": "runtime-instance"}
        )

    def create(self, name: str, **fields: Any) -> Operation:
        """Ask for a pool and let a worker do it."""
        asked = {
            "operationID": f"create-{name}",
            "name": name,
            "namespace": self.namespace,
            "specName": "g1.1",
            "replicas": 1,
            **fields,
        }
        return self.work(pool_create(tenant=self.tenant, body=StockPoolCreate.parse(asked)))

    def delete(self, name: str) -> Operation:
        """Ask for the deletion of a pool and let a worker do it."""
        return self.work(
            pool_request_deletion(
                tenant=self.tenant,
                operation_id=f"delete-{name}",
                namespace=self.namespace,
                name=name,
            )
        )

    def work(self, accepted: Accepted) -> Operation:
        """Run the operation once; return it as it is then."""
        operations.run(accepted.operation.pk)
        return Operation.objects.get(pk=accepted.operation.pk)

    def finish(self, operation: Operation) -> Operation:
        """Let workers take the operation, as sweeps would, until it has ended."""

        def ended() -> bool:
            gate.probe()
            rows = Operation.objects.filter(pk=operation.pk)
            mark_due(rows.filter(phase__in=OPEN_PHASES))
            operations.run(operation.pk)
            return not rows.filter(phase__in=OPEN_PHASES).exists()

        self.wait(ended, lambda: str(Operation.objects.get(pk=operation.pk).message))
        return Operation.objects.get(pk=operation.pk)

    def by_hand(self, name: str, spec: Manifest) -> None:
        """Make a resource as a person with kubectl does, and let the mirror see it."""
        made = self.cluster.create(
            STOCK_POOL,
            {
                "apiVersion": STOCK_POOL.api_version,
                "kind": STOCK_POOL.kind,
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": spec,
            },
        )
        POOL_MIRROR.observed(made)

    def live(self, kind: ResourceKind) -> list[Manifest]:
        """Return the objects of a kind in the namespace."""
        return self.cluster.list(kind, namespace=self.namespace).items

    @staticmethod
    def platform() -> Cluster:
        """Return the client that the platform itself uses."""
        return get_cluster()

    def row(self, name: str) -> StockPool:
        """Return the newest row of that name."""
        found = StockPool.objects.filter(namespace=self.namespace, name=name).first()
        assert found is not None
        return found

    def reconcile(self, name: str) -> StockPool:
        """Let a worker reconcile the pool once, whether it is due or not."""
        gate.probe()
        rows = StockPool.objects.filter(pk=self.row(name).pk)
        mark_due(rows)
        driver.run(POOLS, self.row(name).pk)
        event_writer.finish(WAIT_SECONDS)  # So that a test may count what is written.
        return self.row(name)

    def settle(self, name: str, phase: str, reason: str = "") -> StockPool:
        """Reconcile until the pool has the phase (and reason); return it."""

        def reached() -> bool:
            row = self.reconcile(name)
            return row.phase == phase and (not reason or row.reason == reason)

        self.wait(reached, lambda: f"{name} is {self.row(name).phase}: {self.row(name).message}")
        return self.row(name)

    @staticmethod
    def wait(
        met: Callable[[], bool],
        otherwise: Callable[[], str],
        seconds: float = WAIT_SECONDS,
        last_pause_seconds: float = LAST_PAUSE_SECONDS,
    ) -> None:
        """Return when `met` says so. The longer it takes, the more seldom it is asked."""
        pause, pause_seconds = threading.Event(), FIRST_PAUSE_SECONDS
        end = time.monotonic() + seconds
        while not met():
            assert time.monotonic() < end, otherwise()
            pause.wait(pause_seconds)
            pause_seconds = min(1.25 * pause_seconds, last_pause_seconds)
