"""Stock pools: resources, the objects that they own, rows, and accepted operations."""

import itertools
import uuid
from collections.abc import Mapping
from typing import Any

from gpuplatform.formats.namespaces import POOL_NAMESPACE
from gpuplatform.kube.kinds import FIELD_MANAGER, STOCK_POOL, Manifest
from gpuplatform.operations.services import Accepted
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.workloads.pod_settings import PodSettings
from inventory.core import manifests
from inventory.core.view import PoolView
from inventory.models import StockPool
from inventory.requests.pools import StockPoolCreate, StockPoolPatch
from inventory.services.pools import pool_create, pool_request_deletion, pool_update
from tests.factories.unit_rows import catalogued

_numbers = itertools.count(1)

POOL_UID = "11111111-2222-4333-8444-555555555555"
WRITTEN_BY_PLATFORM = [{"manager": FIELD_MANAGER, "operation": "Update"}]
"""The managed fields of an object that a worker process wrote."""
HTTP_PORT = {"name": "http", "port": 8080}
POD_SETTINGS = PodSettings(reservation_image="reserve:1", sidecar_image="sidecar:1")


def pool_resource(
    name: str = "h100",
    *,
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Manifest:
    """Return a `StockPool` as the API server does."""
    resource: Manifest = {
        "apiVersion": STOCK_POOL.api_version,
        "kind": STOCK_POOL.kind,
        "metadata": {
            "name": name,
            "namespace": "runtime-pools",
            "uid": POOL_UID,
            "generation": 1,
            "resourceVersion": "7",
            "creationTimestamp": "2026-01-31T12:00:00Z",
            **(metadata or {}),
        },
        "spec": {"specName": "g1.1", "replicas": 2, **spec},
    }
    if status is not None:
        resource["status"] = dict(status)
    return resource


def live(manifest: Manifest, *, status: Mapping[str, Any] | None = None) -> Manifest:
    """Return `manifest` as the API server returns it: with a UID, a version and defaults."""
    metadata = {
        **manifest["metadata"],
        "uid": str(uuid.uuid5(uuid.NAMESPACE_DNS, manifest["metadata"]["name"])),
        "resourceVersion": "41",
        "generation": 1,
        "creationTimestamp": "2026-01-31T12:00:00Z",
    }
    return {**manifest, "metadata": metadata, "status": dict(status or {})}


def running(replicas: int, *, available: int | None = None) -> dict[str, Any]:
    """Return the status of a Deployment that has completed generation 1."""
    return {
        "observedGeneration": 1,
        "replicas": replicas,
        "updatedReplicas": replicas,
        "availableReplicas": replicas if available is None else available,
    }


def live_deployment(pool: Manifest, *, status: Mapping[str, Any] | None = None) -> Manifest:
    """Return the desired Deployment of `pool` as the API server returns it."""
    return live(manifests.deployment(PoolView.parse(pool), POD_SETTINGS), status=status)


def live_service(pool: Manifest) -> Manifest:
    """Return the desired Service of `pool` as the API server returns it, always with a port."""
    spec = {**pool["spec"], "template": pool["spec"].get("template") or {"ports": [HTTP_PORT]}}
    return live(manifests.service(PoolView.parse({**pool, "spec": spec})))


def waiting_pod(reason: str, message: str = "", *, name: str = "pool-h100-a") -> Manifest:
    """Return a pod whose container is waiting."""
    waiting = {"reason": reason, **({"message": message} if message else {})}
    return pod(containerStatuses=[{"name": "runtime-worker", "state": {"waiting": waiting}}])


def pod(name: str = "pool-h100-a", **status: Any) -> Manifest:
    """Return a pod with this status."""
    return {"metadata": {"name": name}, "status": {"phase": "Pending", **status}}


def create_body(**changes: Any) -> dict[str, Any]:
    """Return the body of a create with a unique operationID and name."""
    number = next(_numbers)
    return {
        "operationID": f"op-{number}",
        "name": f"pool-{number}",
        "specName": "g1.1",
        "replicas": 2,
        **changes,
    }


def accept_create(**changes: Any) -> Accepted:
    """Accept a create as the API does."""
    asked = StockPoolCreate.parse(create_body(**changes))
    catalogued(asked.spec_name)
    return pool_create(tenant=tenant_by_name(), body=asked)


def accept_update(name: str, *, operation_id: str = "", **changes: Any) -> Accepted:
    """Accept a change as the API does."""
    given = {"operationID": operation_id or f"up-{next(_numbers)}", **changes}
    asked = StockPoolPatch.parse(given)
    return pool_update(tenant=tenant_by_name(), namespace=POOL_NAMESPACE, name=name, body=asked)


def accept_delete(name: str, *, operation_id: str = "") -> Accepted:
    """Accept a deletion as the API does."""
    return pool_request_deletion(
        tenant=tenant_by_name(),
        operation_id=operation_id or f"del-{next(_numbers)}",
        namespace="runtime-pools",
        name=name,
    )


def pool_row(**changes: Any) -> StockPool:
    """Insert the row of a pool that was created with kubectl."""
    number = next(_numbers)
    columns: dict[str, Any] = {
        "namespace": "runtime-pools",
        "name": f"row-{number}",
        "uid": str(uuid.uuid4()),
        "spec": {"specName": "g1.1", "replicas": 2},
        "spec_name": "g1.1",
        "desired_replicas": 2,
    }
    return StockPool.objects.create(**{**columns, **changes})
