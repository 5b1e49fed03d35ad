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
from tests.factories.unit_rows import catalogued

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
        """Request a pool and execute the operation."""
        asked = {
            "operationID": f"create-{name}",
            "name": name,
            "namespace": self.namespace,
            "specName": "g1.1",
            "replicas": 1,
            **fields,
        }
        catalogued(asked["specName"])
        return self.work(pool_create(tenant=self.tenant, body=StockPoolCreate.parse(asked)))

    def delete(self, name: str) -> Operation:
        """Request the deletion of a pool and execute the operation."""
        return self.work(
            pool_request_deletion(
                tenant=self.tenant,
                operation_id=f"delete-{name}",
                namespace=self.namespace,
                name=name,
            )
        )

    def work(self, accepted: Accepted) -> Operation:
        """Execute the operation once; return its row."""
        operations.run(accepted.operation.pk)
        return Operation.objects.get(pk=accepted.operation.pk)

    def finish(self, operation: Operation) -> Operation:
        """Execute the operation as sweeps do, until it has ended."""

        def ended() -> bool:
            gate.probe()
            rows = Operation.objects.filter(pk=operation.pk)
            mark_due(rows.filter(phase__in=OPEN_PHASES))
            operations.run(operation.pk)
            return not rows.filter(phase__in=OPEN_PHASES).exists()

        self.wait(ended, lambda: str(Operation.objects.get(pk=operation.pk).message))
        return Operation.objects.get(pk=operation.pk)

    def by_hand(self, name: str, spec: Manifest) -> None:
        """Create a resource as with kubectl, and update the mirror."""
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
        """Return the client of the platform."""
        return get_cluster()

    def row(self, name: str) -> StockPool:
        """Return the newest row with this name."""
        found = StockPool.objects.filter(namespace=self.namespace, name=name).first()
        assert found is not None
        return found

    def reconcile(self, name: str) -> StockPool:
        """Reconcile the pool once, even if it is not due."""
        gate.probe()
        rows = StockPool.objects.filter(pk=self.row(name).pk)
        mark_due(rows)
        driver.run(POOLS, self.row(name).pk)
        event_writer.finish(WAIT_SECONDS)  # Tests count the writes afterwards.
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
        """Wait until `met` returns true, with increasing delays."""
        pause, pause_seconds = threading.Event(), FIRST_PAUSE_SECONDS
        end = time.monotonic() + seconds
        while not met():
            assert time.monotonic() < end, otherwise()
            pause.wait(pause_seconds)
            pause_seconds = min(1.25 * pause_seconds, last_pause_seconds)
