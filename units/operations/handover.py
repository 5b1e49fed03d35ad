"""Executes creates and starts of units, with the hand-over of the stock unit that they claimed.

The steps have the names of the model: get → (read → [assign] → post) → succeed or fail. A start
patches the unit instead of creating it. Only the rows of stock units record claims; the cluster
does not. After the success, the planners complete the hand-over.
"""

from datetime import timedelta
from typing import Final

from django.db.models.functions import Now

from gpuplatform.errors import ClusterError, InvalidSpec
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.fields import field, number
from gpuplatform.kube.kinds import DEPLOYMENT, GPU_UNIT, POD, Manifest
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.operations.provenance import marks
from gpuplatform.operations.registry import (
    Checkpoint,
    Done,
    Failed,
    Outcome,
    Step,
    Waiting,
)
from gpuplatform.operations.selectors import is_applied
from gpuplatform.planning.ownership import UNIT_LABEL
from gpuplatform.planning.view import ResourceView
from gpuplatform.reconciliation.staleness import confirm_deleted
from units.core.manifests import resource
from units.core.names import object_name
from units.core.observed import is_at_rest, own_pods
from units.core.shortage import holds_gpu
from units.core.sources import SourceReference
from units.core.spec import GPUUnitSpec
from units.models import GpuUnit
from units.operations.changes import UNIT
from units.phases import UnitWait
from units.requests import GpuUnitCreate, WorkerUnitCreate
from units.selectors import is_start_void
from units.services.claims import (
    claimable_stock,
    claimed_stock,
    consumed_stock,
    reassign,
    unit_reconcile_soon,
)
from units.services.names import UnitOperation

STOCK_SECONDS: Final = 2.0
"""Interval in seconds at which a waiting operation tries to claim stock."""

STOCK_TIMEOUT: Final = timedelta(minutes=10)
"""Maximum time for which an operation waits for a ready stock unit."""

STOPPING_SECONDS: Final = 1.0

_SUPERSEDED_BY: Final = {
    UnitOperation.CREATE: (UnitOperation.DELETE,),
    UnitOperation.START: (UnitOperation.DELETE, UnitOperation.STOP),
}


def create(cluster: Cluster, operation: Operation) -> Step:
    """Create the unit with the claimed stock unit as its source."""
    found = UNIT.named(cluster, operation)  # Step `get` comes first: rule `getfirst`.
    if found is None:
        return _post(cluster, operation)
    return UNIT.existing(found, operation)


def _post(cluster: Cluster, operation: Operation) -> Step:
    stock, live = _read_stock(cluster, operation)
    if stock is None or live is None:
        return _assign(operation, stock)
    # The payload was validated when it was accepted. Only workers have the block `serverless`.
    model = WorkerUnitCreate if "serverless" in operation.payload else GpuUnitCreate
    body = model.parse(
        {**operation.payload, "operationID": operation.operation_id, "name": operation.object_name}
    )
    try:
        spec = body.spec(GPUUnitSpec.parse(live.get("spec") or {}))
    except InvalidSpec as error:
        return Failed(
            "invalid_request", f"The stock unit '{stock.name}' has an invalid spec: {error}"
        )
    source = SourceReference(stock.name, stock.uid)
    annotations = {**marks(operation), **source.annotations()}
    manifest = resource(operation.object_namespace, operation.object_name, spec, annotations)
    return Done(cluster.create(GPU_UNIT, manifest))


def release_stock(cluster: Cluster, _: Operation, success: Done) -> None:
    """Delete the consumed stock unit early (rule `uidstock`).

    Raises:
        ClusterError: If the deletion fails; the planner of the stock unit repeats it later.
    """
    row = consumed_stock(success.resource).first() if success.resource else None
    if row is None or row.deleted_at:
        return
    try:
        cluster.delete(GPU_UNIT, row.name, namespace=row.namespace, uid=row.uid)
    except ClusterError:
        unit_reconcile_soon(row)
        raise


def start(cluster: Cluster, operation: Operation) -> Step:
    """Start the stopped unit with the claimed stock unit as its source."""
    found = UNIT.read(cluster, operation)
    # A unit that is being deleted would consume stock and never run.
    if found is None or field(found, "metadata", "deletionTimestamp"):
        return UNIT.missing(operation)
    # Rule `applied`: this operation, or a later one that replaces it, was applied. A running unit
    # keeps its GPUs, and the claim is released.
    if is_applied(found, operation) or not _is_stopped(found):
        return Done(found)
    # Rule `startwaits`: the source is read and the unit is patched after the old pods are deleted.
    if not _has_released_gpus(cluster, found):
        return _superseded(operation) or Waiting(
            UnitWait.STOPPING,
            "The previous pod still holds GPUs. The unit starts when they are released.",
            STOPPING_SECONDS,
        )
    stock, live = _read_stock(cluster, operation)
    if stock is None or live is None:
        return _assign(operation, stock)
    source = SourceReference(stock.name, stock.uid)
    return UNIT.change(cluster, operation, found, {"suspend": None}, source.annotations())


def _is_stopped(unit: Manifest) -> bool:
    """Return whether a unit is suspended, or counts as suspended after a failed start.

    Rule `voidstart`.
    """
    return field(unit, "spec", "suspend") is True or is_start_void(unit)


def _has_released_gpus(cluster: Cluster, unit: Manifest) -> bool:
    """Return whether the Deployment of a unit has 0 replicas and its pods are deleted.

    If a suspended unit has no Deployment, the planner creates one with 0 replicas (rule `zero`).
    Until then, a late write could create a Deployment with 1 replica.
    """
    view = ResourceView.of(unit)
    deployment = cluster.get(DEPLOYMENT, object_name(view.name), namespace=view.namespace)
    if deployment is None or not is_at_rest(view, deployment):  # Rule `stamp`.
        return False
    seen = number(deployment, "status", "observedGeneration")
    if seen < deployment["metadata"]["generation"] or number(deployment, "status", "replicas"):
        return False
    selector = f"{UNIT_LABEL}={view.name}"
    pods = cluster.list(POD, namespace=view.namespace, label_selector=selector).items
    return not any(map(holds_gpu, own_pods(view, pods)))


def _read_stock(cluster: Cluster, operation: Operation) -> tuple[GpuUnit | None, Manifest | None]:
    """Return the row of the claimed stock unit and its resource (step `read`).

    The row is `None` if no stock unit is claimed; the resource is `None` if it is deleted or is
    being deleted.
    """
    stock = claimed_stock(operation)
    if stock is None:
        return None, None
    live = cluster.get(GPU_UNIT, stock.name, namespace=stock.namespace)
    if live is None or live["metadata"]["uid"] != stock.uid:
        confirm_deleted(cluster, GPU_UNIT, stock, live)
        return stock, None
    return stock, None if field(live, "metadata", "deletionTimestamp") else live


def _assign(operation: Operation, deleted: GpuUnit | None) -> Step:
    """Return the step that claims another stock unit and releases the first (step `assign`)."""
    stock_name = str(operation.payload.get("stockName") or "")
    if stock_name:
        message = f"The stock unit '{stock_name}' was deleted. Choose another one."
        return Failed("insufficient_capacity", message, retryable=True)

    def record(fresh: Operation) -> Outcome | None:
        spec_name = str(fresh.payload.get("specName") or UNIT.row(fresh).spec_name)
        free = claimable_stock(spec_name)
        return None if reassign(fresh, deleted, free) else _without_stock(fresh, spec_name)

    return Checkpoint(record)


def _without_stock(operation: Operation, spec_name: str) -> Outcome:
    """Return `Waiting`, or `Failed` after the timeout (steps `wait` and `giveup`)."""
    waited = Operation.objects.filter(
        pk=operation.pk, reason=UnitWait.WAITING_FOR_STOCK, reason_since__lt=Now() - STOCK_TIMEOUT
    )
    if waited.exists():
        return Failed(
            "insufficient_capacity",
            f"No stock unit of the GPU spec '{spec_name}' became ready within 10 minutes. Try"
            " again later.",
            retryable=True,
        )
    return _superseded(operation) or Waiting(
        UnitWait.WAITING_FOR_STOCK,
        f"No stock unit of the GPU spec '{spec_name}' is ready. The operation continues when one"
        " becomes ready.",
        STOCK_SECONDS,
    )


def _superseded(operation: Operation) -> Failed | None:
    """Return the failure of a waiting operation, if a later operation supersedes it."""
    later = Operation.objects.filter(
        object_kind=operation.object_kind,
        object_namespace=operation.object_namespace,
        object_name=operation.object_name,
        id__gt=operation.pk,
        kind__in=_SUPERSEDED_BY[UnitOperation(operation.kind)],
        phase__in=OPEN_PHASES,
    )
    if not later.exists():
        return None
    return Failed(
        "phase_conflict",
        f"A later operation stops or deletes the GPU unit '{operation.object_name}'.",
    )
