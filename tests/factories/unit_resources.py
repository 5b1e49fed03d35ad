"""GPU units of both roles: resources as the API server returns them, and accepted operations."""

import itertools
from collections.abc import Mapping
from typing import Any

from django.db.models import F
from django.db.models.functions import Now

from gpuplatform.kube.kinds import FIELD_MANAGER, GPU_UNIT, Manifest
from gpuplatform.operations import driver as operations
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.operations.services import Accepted
from gpuplatform.reconciliation import driver
from gpuplatform.tenancy.selectors import tenant_by_name
from tests.factories.unit_rows import catalogued, catalogued_for
from tests.fakes.cluster import FakeCluster
from units.core.names import UNIT_UID_LABEL
from units.core.sources import SourceReference
from units.models import GpuUnit
from units.phases import UnitRole
from units.reconcile import UNITS
from units.requests import GpuUnitCreate, StockSeed
from units.services.stock import stock_seed
from units.services.units import unit_create

_numbers = itertools.count(1)

NAMESPACE = "runtime-instance"
UNIT_UID = "22222222-3333-4444-8555-666666666666"
IMAGE = "docker.io/library/nginx:1.27"
WRITTEN_BY_PLATFORM = [{"manager": FIELD_MANAGER, "operation": "Update"}]


def unit_resource(
    name: str = "a",
    *,
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Manifest:
    """Return a `GPUUnit` as the API server does; active by default."""
    resource: Manifest = {
        "apiVersion": GPU_UNIT.api_version,
        "kind": GPU_UNIT.kind,
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": UNIT_UID,
            "generation": 1,
            "resourceVersion": "7",
            "creationTimestamp": "2026-01-31T12:00:00Z",
            **(metadata or {}),
        },
        "spec": {"specName": "g1.1", "gpu": 1, "image": IMAGE, **spec},
    }
    if status is not None:
        resource["status"] = dict(status)
    return resource


def naming(stock: GpuUnit) -> dict[str, str]:
    """Return the annotations of a unit with `stock` as its source."""
    return SourceReference(stock.name, stock.uid).annotations()


def ready(reason: str = "UnitReady", **changes: Any) -> dict[str, Any]:
    """Return the status of a running unit."""
    condition = {"type": "Ready", "status": "True", "reason": reason, "message": "It runs."}
    return {
        "phase": "Ready",
        "readyReplicas": 1,
        "observedGeneration": 1,
        "conditions": [condition],
        **changes,
    }


def at_version(resource: Manifest, version: int) -> Manifest:
    """Return the resource with another resource version."""
    return {**resource, "metadata": {**resource["metadata"], "resourceVersion": str(version)}}


def orphan_pod(row: GpuUnit, name: str = "left-over") -> Manifest:
    """Return a pod of a unit that remains after the deletion of the unit."""
    labels = {"runtime.lokiwager.io/unit": row.name, UNIT_UID_LABEL: row.uid}
    return {"metadata": {"name": name, "namespace": row.namespace, "labels": labels}}


def accept_seed(replicas: int = 1, **changes: Any) -> Accepted:
    """Accept a seed as the API does."""
    body = {"operationID": f"seed-{next(_numbers)}", "specName": "g1.1", "gpu": 1}
    asked = StockSeed.parse({**body, "replicas": replicas, **changes})
    catalogued_for(asked.payload())
    return stock_seed(tenant=tenant_by_name(), body=asked)


def accept_unit(**changes: Any) -> Accepted:
    """Accept a create as the API does."""
    number = next(_numbers)
    body = {
        "operationID": f"unit-{number}",
        "name": f"unit-{number}",
        "specName": "g1.1",
        "image": IMAGE,
        "template": {"ports": [{"name": "http", "port": 8080}]},
    }
    asked = GpuUnitCreate.parse({**body, **changes})
    catalogued(asked.spec_name)
    return unit_create(tenant=tenant_by_name(), body=asked)


def finished(accepted: Accepted) -> Operation:
    """Execute the operation until it ends or waits; return it."""
    for _ in range(10):
        open_ = Operation.objects.filter(pk=accepted.operation.pk, phase__in=OPEN_PHASES)
        if not open_.update(due_at=Now()):
            break
        operations.run(accepted.operation.pk)
    return Operation.objects.get(pk=accepted.operation.pk)


def work_off(cluster: FakeCluster, rounds: int = 8) -> None:
    """Reconcile all units as a sweep does, and run the controllers of the cluster."""
    for _ in range(rounds):
        live = GpuUnit.objects.filter(deleted_at__isnull=True).exclude(uid="")
        live.update(due_at=Now(), due_seq=F("due_seq") + 1)
        for number in live.values_list("id", flat=True):
            driver.run(UNITS, number)
        cluster.settle()


def stocked(cluster: FakeCluster, number: int = 1, **changes: Any) -> list[GpuUnit]:
    """Seed stock and wait until it is ready; return its rows, oldest first."""
    operation = finished(accept_seed(number, **changes))
    assert operation.phase == "Succeeded", operation.error_message or operation.message
    work_off(cluster, 4)
    return list(operation.gpu_units.order_by("id"))


def handed_over(cluster: FakeCluster, **changes: Any) -> GpuUnit:
    """Create a unit on ready stock and reconcile it; return its row."""
    operation = finished(accept_unit(**changes))
    assert operation.phase == "Succeeded", operation.error_message or operation.message
    work_off(cluster)
    return GpuUnit.objects.get(pk=operation.object_row or 0, role=UnitRole.ACTIVE)
