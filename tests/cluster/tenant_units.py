"""The path to stock and GPU units in this process: services, drivers, a real API server."""

from collections.abc import Callable
from typing import Any

from gpuplatform.kube.client import Cluster
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
from units.core.names import object_name
from units.mirror import UNIT_MIRROR
from units.models import GpuUnit
from units.phases import STOCK_NAMESPACE, UnitRole
from units.reconcile import UNITS
from units.requests import GpuUnitCreate, StockSeed
from units.services.stock import stock_seed
from units.services.units import unit_create, unit_request_deletion, unit_start, unit_stop

SPEC = "g1.1"
COLLECTED_SECONDS = 120.0
"""Just after a definition was installed a garbage collector begins anew: half a minute."""
HTTP = {"ports": [{"name": "http", "port": 8080}]}


class Units:
    """The units of one tenant, whose namespace is this test's, and the stock of the platform."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.tenant = Tenant.objects.create(name=namespace, namespace=namespace)

    def seed(self, replicas: int, **fields: Any) -> list[GpuUnit]:
        """Ask for stock and wait until it is ready; return its rows, oldest first."""
        number = Operation.objects.count()
        asked = {
            "operationID": f"seed-{number}",
            "specName": SPEC,
            "gpu": 1,
            "replicas": replicas,
            **fields,
        }
        accepted = stock_seed(tenant=self.tenant, body=StockSeed.parse(asked))
        operation = self.finish(accepted)
        assert operation.phase == "Succeeded", operation.error_message
        rows = operation.gpu_units.order_by("id")
        self.until(lambda: all(row.phase == "Ready" for row in rows.all()))
        return list(rows.all())

    def accept(self, name: str, **fields: Any) -> Accepted:
        """Ask for a unit."""
        asked = {
            "operationID": f"create-{name}",
            "name": name,
            "specName": SPEC,
            "image": "busybox:1.36",
            "template": HTTP,
            **fields,
        }
        return unit_create(tenant=self.tenant, body=GpuUnitCreate.parse(asked))

    def create(self, name: str, **fields: Any) -> Operation:
        """Ask for a unit and let workers make it; no planner acts on it yet."""
        return self.finish(self.accept(name, **fields))

    def stop(self, name: str) -> Operation:
        """Ask that the unit gives its GPU up, and let workers tell it."""
        number = Operation.objects.count()
        return self.finish(unit_stop(tenant=self.tenant, name=name, operation_id=f"s-{number}"))

    def start(self, name: str) -> Operation:
        """Ask that the unit runs again, and let workers tell it."""
        number = Operation.objects.count()
        return self.finish(unit_start(tenant=self.tenant, name=name, operation_id=f"s-{number}"))

    def delete(self, name: str) -> Operation:
        """Ask for the deletion of the unit, and let workers do it."""
        accepted = unit_request_deletion(
            tenant=self.tenant, name=name, operation_id=f"delete-{name}"
        )
        return self.finish(accepted)

    def finish(self, accepted: Accepted) -> Operation:
        """Let workers take the operation, as sweeps would, until it has ended."""
        rows = Operation.objects.filter(pk=accepted.operation.pk)

        def ended() -> bool:
            gate.probe()
            mark_due(rows.filter(phase__in=OPEN_PHASES))
            operations.run(accepted.operation.pk)
            return not rows.filter(phase__in=OPEN_PHASES).exists()

        Pools.wait(ended, lambda: str(rows.get().message))
        return rows.get()

    def by_hand(self, name: str, **metadata: Any) -> Manifest:
        """Make a unit as a person with kubectl does, and let the mirror see it."""
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
        """Return the client that the platform itself uses."""
        return get_cluster()

    @staticmethod
    def tick() -> None:
        """Reconcile every unit once, whether it is due or not."""
        gate.probe()
        live = GpuUnit.objects.filter(deleted_at__isnull=True).exclude(uid="")
        mark_due(live)
        for number in live.values_list("id", flat=True):
            driver.run(UNITS, number)
        event_writer.finish(COLLECTED_SECONDS)  # So that a test may count what is written.

    def until(
        self,
        met: Callable[[], object],
        said: str = "",
        *,
        last_pause_seconds: float = LAST_PAUSE_SECONDS,
    ) -> None:
        """Reconcile everything until `met` says so; more and more seldom."""

        def reached() -> bool:
            self.tick()
            return bool(met())

        Pools.wait(reached, lambda: f"{said} {self.rows()}", COLLECTED_SECONDS, last_pause_seconds)

    @staticmethod
    def rows() -> list[tuple[str, str, str, str]]:
        """Return what is said of every live row; for messages of failure."""
        live = GpuUnit.objects.filter(deleted_at__isnull=True)
        return list(live.values_list("name", "phase", "reason", "message"))

    def row(self, name: str) -> GpuUnit:
        """Return the newest row of the active unit of that name."""
        found = GpuUnit.objects.filter(role=UnitRole.ACTIVE, name=name)
        return found.filter(namespace=self.namespace)[0]

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
        """Return what a unit owns by its name, or the unit itself."""
        name = row.name if kind == GPU_UNIT else object_name(row.name)
        return self.cluster.get(kind, name, namespace=row.namespace)

    def deployment(self, row: GpuUnit) -> Manifest:
        """Return the Deployment of a unit, which has to be there."""
        found = self.live(DEPLOYMENT, row)
        assert found is not None
        return found

    def clear(self) -> None:
        """Delete every unit of this test and all stock; return when no pod holds a GPU."""
        for namespace in (self.namespace, STOCK_NAMESPACE):
            for unit in self.cluster.list(GPU_UNIT, namespace=namespace).items:
                self.cluster.delete(GPU_UNIT, unit["metadata"]["name"], namespace=namespace)
        for pod in self.cluster.list(POD, label_selector=UNIT_LABEL).items:
            place, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
            if pod["metadata"].get("finalizers"):  # Of a test that failed.
                free = {"metadata": {"finalizers": None}}
                self.cluster.merge_patch(POD, name, free, namespace=place)
        Pools.wait(
            lambda: not self.cluster.list(POD, label_selector=UNIT_LABEL).items,
            lambda: "pods of units are left",
            COLLECTED_SECONDS,
        )
