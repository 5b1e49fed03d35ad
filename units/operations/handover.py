"""Executes creations and starts of units, with the hand-over of the stock unit that they claimed.

The steps have the names of the model: get → (read → [assign] → post) → succeed or fail. A start
patches the unit instead of creating it. Only the rows of stock units record claims; the cluster
does not. After the success, the planners complete the hand-over.
"""

from collections.abc import Mapping
from typing import Final

from gpuplatform.errors import InvalidSpec
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.errors import ClusterError
from gpuplatform.kube.fields import field
from gpuplatform.kube.kinds import DEPLOYMENT, GPU_UNIT, JOB, POD, Manifest, ResourceKind
from gpuplatform.operations.models import Operation
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
from gpuplatform.planning.plan import Absent, Present
from gpuplatform.planning.view import ResourceView
from gpuplatform.reconciliation.staleness import confirm_deleted
from gpuplatform.workloads.holders import holds_gpu
from units.core.child import has_observed_zero, is_at_rest, kind_of
from units.core.endings import has_ended
from units.core.manifests import resource
from units.core.names import (
    AVOIDED_NODE_ANNOTATION,
    PREFERRED_NODE_ANNOTATION,
    object_name,
)
from units.core.observed import own_pods
from units.core.sources import SourceReference
from units.core.spec import GPUUnitSpec
from units.models import CapacityRequest, GpuUnit
from units.operations.changes import UNIT
from units.operations.waits import expired, superseded, wait_for_grant
from units.phases import RequestPhase, UnitWait
from units.requests import create_body
from units.selectors import claimable_stock
from units.services.claims import (
    claimed_stock,
    consumed_stock,
    reassign,
    unit_reconcile_soon,
)
from units.services.pulls import AVOIDED_NODE
from units.services.queue import DEFAULT_WAIT, Wanted, request_open, wanted_by
from units.void_starts import is_start_void
from units.waiting import unless_queued

STOPPING_SECONDS: Final = 1.0


def create(cluster: Cluster, operation: Operation) -> Step:
    """Create the unit with the claimed stock unit as its source."""
    found = UNIT.named(cluster, operation)  # Step `get` comes first: rule `getfirst`.
    if found is None:
        return _post(cluster, operation)
    return UNIT.existing(found, operation)


def _post(cluster: Cluster, operation: Operation) -> Step:
    stock, live = read_stock(cluster, operation)
    if stock is None or live is None:
        return _assign(operation, stock)
    # The payload was validated when it was accepted.
    body = create_body(operation.payload, operation.operation_id, operation.object_name)
    try:
        spec = body.spec(GPUUnitSpec.parse(live.get("spec") or {}))
    except InvalidSpec as error:
        return Failed(
            "invalid_request", f"The stock unit '{stock.name}' has an invalid spec: {error}"
        )
    source = SourceReference(stock.name, stock.uid)
    annotations = {**marks(operation), **source.annotations(), **preference(stock)}
    manifest = resource(operation.object_namespace, operation.object_name, spec, annotations)
    return Done(cluster.create(GPU_UNIT, manifest))


def release_stock(cluster: Cluster, _: Operation, success: Done) -> None:
    """Delete the consumed stock unit early (rule `uidstock`).

    Raises:
        ClusterError: If the deletion fails; the planner of the stock unit repeats it later.
    """
    rows = consumed_stock(success.resource) if success.resource else GpuUnit.objects.none()
    row = rows.only("namespace", "name", "uid", "deleted_at").first()
    if row is None or row.deleted_at:
        return
    try:
        cluster.delete(GPU_UNIT, row.name, namespace=row.namespace, uid=row.uid)
    except ClusterError:
        unit_reconcile_soon(row)
        raise


def start(cluster: Cluster, operation: Operation) -> Step:
    """Start the stopped or ended unit with the claimed stock unit as its source.

    The source identifies the run, so that the program of an ended unit runs again.
    """
    found = UNIT.read(cluster, operation)
    # A unit that is being deleted would consume stock and never run.
    if found is None or field(found, "metadata", "deletionTimestamp"):
        return UNIT.missing(operation)
    # Rule `applied`: this operation, or a later one that replaces it, was applied.
    if is_applied(found, operation):
        return Done(found)
    objects = _read_workloads(cluster, found)
    # A running unit keeps its GPUs, and the claim is released.
    if not _is_stopped(found) and not _has_ended(found, objects):
        return Done(found)
    # Rule `startwaits`: the source is read and the unit is patched after the old pods have ended.
    if not _has_released_gpus(cluster, found, objects):
        return superseded(operation) or Waiting(
            UnitWait.STOPPING,
            "The previous pod still holds GPUs. The unit starts when they are released.",
            STOPPING_SECONDS,
        )
    stock, live = read_stock(cluster, operation)
    if stock is None or live is None:
        return _assign(operation, stock)
    source = SourceReference(stock.name, stock.uid)
    # Only a start after a failed image pull avoids a node.
    avoided = {AVOIDED_NODE_ANNOTATION: operation.payload.get(AVOIDED_NODE)}
    preferred = {PREFERRED_NODE_ANNOTATION: None} | preference(stock)
    annotations = source.annotations() | avoided | preferred
    return UNIT.change(cluster, operation, found, {"suspend": None}, annotations)


def preference(stock: GpuUnit) -> dict[str, str]:
    """Return the annotation with the node of a stock unit that was claimed for its node."""
    return {PREFERRED_NODE_ANNOTATION: stock.node} if stock.is_warm_start else {}


def _is_stopped(unit: Manifest) -> bool:
    """Return whether a unit is suspended, or counts as suspended after a failed start.

    Rule `voidstart`.
    """
    return field(unit, "spec", "suspend") is True or is_start_void(unit)


def _read_workloads(cluster: Cluster, unit: Manifest) -> Mapping[ResourceKind, Manifest]:
    """Return the Deployment and the Job of a unit that exist and that its spec ever required."""
    view, kind = ResourceView.of(unit), kind_of(unit)
    kinds = (DEPLOYMENT, JOB) if view.generation > 1 else (kind,)
    found = {
        each: cluster.get(each, object_name(view.name), namespace=view.namespace) for each in kinds
    }
    return {each: one for each, one in found.items() if one is not None}


def _has_ended(unit: Manifest, objects: Mapping[ResourceKind, Manifest]) -> bool:
    """Return whether the program of a unit has ended in its current run.

    Nothing can run the program again: a finished Job never runs a pod.
    """
    job = objects.get(JOB)
    return has_ended(ResourceView.of(unit), Absent() if job is None else Present(job))


def _has_released_gpus(
    cluster: Cluster, unit: Manifest, objects: Mapping[ResourceKind, Manifest]
) -> bool:
    """Return whether the objects of a stopped unit are idle and its pods are deleted.

    If a suspended unit has no Deployment or no Job, the planner creates one at zero (rule `zero`).
    Until then, a late write could start a pod.
    """
    view = ResourceView.of(unit)
    if _is_stopped(unit) and not _is_at_rest(view, kind_of(unit), objects):
        return False
    selector = f"{UNIT_LABEL}={view.name}"
    pods = cluster.list(POD, namespace=view.namespace, label_selector=selector).items
    return not any(map(holds_gpu, own_pods(view, pods)))


def _is_at_rest(
    view: ResourceView, kind: ResourceKind, objects: Mapping[ResourceKind, Manifest]
) -> bool:
    """Return whether the planner stopped the objects that the unit must have (rule `stamp`)."""
    required = {kind} if view.generation == 1 or kind == DEPLOYMENT else {DEPLOYMENT, JOB}
    return objects.keys() == required and all(
        is_at_rest(view, each, one) and has_observed_zero(each, one)
        for each, one in objects.items()
    )


def read_stock(cluster: Cluster, operation: Operation) -> tuple[GpuUnit | None, Manifest | None]:
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
        request = CapacityRequest.objects.filter(operation=fresh).first()
        if request is not None and request.phase == RequestPhase.OPEN:
            return wait_for_grant(request)
        granted = claimed_stock(fresh)
        if granted is not None and granted != deleted:
            return None  # The matcher granted other stock since the claim was read.
        if request is not None and request.phase == RequestPhase.CLOSED:
            return superseded(fresh) or expired(request)
        wanted = _wanted(fresh)
        free = claimable_stock(wanted.spec_name, resource_name=wanted.resource_name)
        if reassign(fresh, deleted, unless_queued(free, wanted.spec_name), wanted.image):
            return None
        return superseded(fresh) or wait_for_grant(
            request_open(fresh, UNIT.row(fresh), wanted, DEFAULT_WAIT, is_limited=False)
        )

    return Checkpoint(record)


def _wanted(operation: Operation) -> Wanted:
    """Return the stock that the operation requires.

    Only a creation has the GPU spec and the image in its payload, and it accepts any resource. A
    started unit keeps the resource of its spec.
    """
    payload = operation.payload
    if "specName" in payload:
        return Wanted(
            str(payload["specName"]),
            image=str(payload.get("image") or ""),
            priority=int(payload.get("priority", 0)),
            is_preemptible=payload.get("preemptible") is True,
        )
    return wanted_by(UNIT.row(operation))
