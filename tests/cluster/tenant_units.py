"""The path to stock and GPU units in this process: services, drivers, a real API server."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.errors import ClusterRejected
from gpuplatform.kube.kinds import DEPLOYMENT, GPU_UNIT, POD, Manifest, ResourceKind
from gpuplatform.kube.modes import get_cluster
from gpuplatform.operations import driver as operations
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.operations.services import Accepted
from gpuplatform.planning.ownership import UNIT_LABEL
from gpuplatform.reconciliation import driver, event_writer, gate
from gpuplatform.reconciliation.leases import mark_due
from gpuplatform.tenancy.models import Tenant
from tests.cluster.pools import LAST_PAUSE_SECONDS, Pools
from tests.factories.unit_rows import catalogued, catalogued_for
from units.core.names import object_name
from units.mirror import UNIT_MIRROR
from units.models import GpuUnit
from units.nodes import compare_nodes
from units.phases import STOCK_NAMESPACE, UnitRole
from units.reconcile import UNITS
from units.requests import GpuUnitCreate, StockSeed
from units.services.stock import stock_seed
from units.services.units import unit_create, unit_request_deletion, unit_start, unit_stop

SPEC = "g1.1"
COLLECTED_SECONDS = 120.0
"""After the installation of a CRD the garbage collector restarts for half a minute."""
HTTP = {"ports": [{"name": "http", "port": 8080}]}


class Units:
    """The units of one tenant with the namespace of this test, and the stock of the platform."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.tenant = Tenant.objects.create(name=namespace, namespace=namespace)

    def seed(self, replicas: int, **fields: Any) -> list[GpuUnit]:
        """Request stock and wait until it is ready; return its rows, oldest first."""
        number = Operation.objects.count()
        asked = {
            "operationID": f"seed-{number}",
            "specName": SPEC,
            "gpu": 1,
            "replicas": replicas,
            **fields,
        }
        catalogued_for(asked)
        accepted = stock_seed(tenant=self.tenant, body=StockSeed.parse(asked))
        operation = self.finish(accepted)
        assert operation.phase == "Succeeded", operation.error_message
        rows = operation.gpu_units.order_by("id")
        self.until(lambda: all(row.phase == "Ready" for row in rows.all()))
        return list(rows.all())

    def accept(self, name: str, **fields: Any) -> Accepted:
        """Request a unit."""
        asked = {
            "operationID": f"create-{name}",
            "name": name,
            "specName": SPEC,
            "image": "busybox:1.36",
            "template": HTTP,
            **fields,
        }
        catalogued(asked["specName"])
        return unit_create(tenant=self.tenant, body=GpuUnitCreate.parse(asked))

    def create(self, name: str, **fields: Any) -> Operation:
        """Request a unit and execute the operation; no planner acts on it yet."""
        return self.finish(self.accept(name, **fields))

    def stop(self, name: str) -> Operation:
        """Request a stop of the unit, and execute the operation."""
        number = Operation.objects.count()
        return self.finish(unit_stop(tenant=self.tenant, name=name, operation_id=f"s-{number}"))

    def start(self, name: str) -> Operation:
        """Request a start of the unit, and execute the operation."""
        number = Operation.objects.count()
        return self.finish(unit_start(tenant=self.tenant, name=name, operation_id=f"s-{number}"))

    def delete(self, name: str) -> Operation:
        """Request the deletion of the unit, and execute the operation."""
        accepted = unit_request_deletion(
            tenant=self.tenant, name=name, operation_id=f"delete-{name}"
        )
        return self.finish(accepted)

    def finish(self, accepted: Accepted) -> Operation:
        """Execute the operation as sweeps do, until it has ended."""
        rows = Operation.objects.filter(pk=accepted.operation.pk)

        def ended() -> bool:
            gate.probe()
            mark_due(rows.filter(phase__in=OPEN_PHASES))
            operations.run(accepted.operation.pk)
            return not rows.filter(phase__in=OPEN_PHASES).exists()

        Pools.wait(ended, lambda: str(rows.get().message))
        return rows.get()

    @staticmethod
    def run_operations() -> None:
        """Let workers take each open operation once, as a sweep would."""
        gate.probe()
        open_ = Operation.objects.filter(phase__in=OPEN_PHASES)
        mark_due(open_)
        for number in list(open_.order_by("id").values_list("id", flat=True)):
            operations.run(number)

    def by_hand(self, name: str, **metadata: Any) -> Manifest:
        """Create a unit as with kubectl, and update the mirror."""
        made = self.cluster.create(
            GPU_UNIT,
            {
                "apiVersion": GPU_UNIT.api_version,
                "kind": GPU_UNIT.kind,
                "metadata": {"name": name, "namespace": self.namespace, **metadata},
                "spec": {"specName": SPEC, "gpu": 1, "image": "busybox:1.36", "template": HTTP},
            },
        )
        UNIT_MIRROR.observed(made)
        return made

    @staticmethod
    def platform() -> Cluster:
        """Return the client of the platform."""
        return get_cluster()

    @staticmethod
    def tick() -> None:
        """Reconcile every unit once, even if it is not due."""
        gate.probe()
        live = GpuUnit.objects.filter(deleted_at__isnull=True).exclude(uid="")
        mark_due(live)
        for number in live.values_list("id", flat=True):
            driver.run(UNITS, number)
        event_writer.finish(COLLECTED_SECONDS)  # Tests count the writes afterwards.

    def until(
        self,
        met: Callable[[], object],
        description: str = "",
        *,
        last_pause_seconds: float = LAST_PAUSE_SECONDS,
        seconds: float = COLLECTED_SECONDS,
    ) -> None:
        """Reconcile everything until `met` returns true, with increasing delays."""

        def reached() -> bool:
            self.tick()
            return bool(met())

        Pools.wait(reached, lambda: f"{description} {self.rows()}", seconds, last_pause_seconds)

    @staticmethod
    def rows() -> list[tuple[str, str, str, str, str]]:
        """Return the state of every live row, for messages of failures."""
        live = GpuUnit.objects.filter(deleted_at__isnull=True)
        return list(live.values_list("name", "phase", "reason", "node", "message"))

    def row(self, name: str) -> GpuUnit:
        """Return the newest row of the active unit with this name."""
        found = GpuUnit.objects.filter(role=UnitRole.ACTIVE, name=name)
        return found.filter(namespace=self.namespace)[0]

    def settle_elsewhere(self, name: str, phase: str) -> GpuUnit:
        """Work until a unit that avoids a node has the phase; return it."""

        def reached() -> bool:
            compare_nodes(self.cluster)  # Records the nodes of the stock.
            self.run_operations()
            row = self.row(name)
            return bool(row.avoided_node) and row.phase == phase

        self.until(reached)
        return self.row(name)

    def settle(self, name: str, phase: str, reason: str = "") -> GpuUnit:
        """Reconcile until the unit has the phase (and reason); return it."""

        def reached() -> bool:
            row = self.row(name)
            return row.phase == phase and (not reason or row.reason == reason)

        self.until(reached)
        return self.row(name)

    def pods(self, row: GpuUnit) -> list[Manifest]:
        """Return the pods of a unit."""
        selector = f"{UNIT_LABEL}={row.name}"
        return self.cluster.list(POD, namespace=row.namespace, label_selector=selector).items

    def live(self, kind: ResourceKind, row: GpuUnit) -> Manifest | None:
        """Return the object of a unit with its name, or the unit itself."""
        name = row.name if kind == GPU_UNIT else object_name(row.name)
        return self.cluster.get(kind, name, namespace=row.namespace)

    def deployment(self, row: GpuUnit) -> Manifest:
        """Return the Deployment of a unit, which must exist."""
        found = self.live(DEPLOYMENT, row)
        assert found is not None
        return found

    def clear(self) -> None:
        """Delete all units of this test and all stock; wait until no pod holds a GPU."""
        for namespace in (self.namespace, STOCK_NAMESPACE):
            for unit in self.cluster.list(GPU_UNIT, namespace=namespace).items:
                self.cluster.delete(GPU_UNIT, unit["metadata"]["name"], namespace=namespace)
        for pod in self.cluster.list(POD, label_selector=UNIT_LABEL).items:
            place, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
            if pod["metadata"].get("finalizers"):  # Of a failed test.
                free = {"metadata": {"finalizers": None}}
                with suppress(ClusterRejected):  # It was deleted after the list.
                    self.cluster.merge_patch(POD, name, free, namespace=place)
        Pools.wait(
            lambda: not self.cluster.list(POD, label_selector=UNIT_LABEL).items,
            lambda: "pods of units are left",
            COLLECTED_SECONDS,
        )
