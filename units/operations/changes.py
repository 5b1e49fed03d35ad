"""Executes updates and stops of a GPU unit, and declares the target of all operations on units."""

from typing import Final

from gpuplatform.kube.client import Cluster
from gpuplatform.kube.errors import ClusterRejected
from gpuplatform.kube.kinds import GPU_UNIT, Manifest
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationWait
from gpuplatform.operations.registry import Done, Outcome, Waiting
from gpuplatform.operations.selectors import is_applied
from gpuplatform.operations.target import Target
from gpuplatform.operations.versions import IF_MATCH
from units.models import GpuUnit
from units.requests import GpuUnitUpdate

UNIT: Final = Target(GPU_UNIT, GpuUnit, "GPU unit")

REJECTED_STOP_SECONDS: Final = 60.0


def update(cluster: Cluster, operation: Operation) -> Outcome:
    """Change the image, the template or the access block of the unit."""

    def changed(spec: Manifest) -> Manifest:
        payload = {key: value for key, value in operation.payload.items() if key != IF_MATCH}
        body = GpuUnitUpdate.parse({**payload, "operationID": operation.operation_id})
        return body.applied_to(spec).normalised()

    return UNIT.update(cluster, operation, changed)


def stop(cluster: Cluster, operation: Operation) -> Outcome:
    """Suspend the unit. A stop never fails; if the unit does not exist, nothing is done."""
    found = UNIT.read(cluster, operation)
    if found is None:
        return Done()
    if is_applied(found, operation):
        return Done(found)
    try:
        changed = UNIT.change(cluster, operation, found, {"suspend": True})
    except ClusterRejected as error:
        return Waiting(OperationWait.CLUSTER_REJECTED, str(error), REJECTED_STOP_SECONDS)
    return changed if isinstance(changed, Done) else Done()
