"""Changes, stops and deletes a GPU unit: the one whose UID its create recorded."""

from typing import Final

from gpuplatform.errors import ClusterRejected, InvalidSpec
from gpuplatform.kube.client import Cluster
from gpuplatform.kube.kinds import GPU_UNIT, Manifest
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationWait
from gpuplatform.operations.registry import Done, Failed, Outcome, Waiting
from gpuplatform.operations.selectors import is_applied
from gpuplatform.operations.target import Target, replacement
from gpuplatform.operations.versions import IF_MATCH, stale, version_of
from units.core.spec import GPUUnitSpec, parse_unit_spec
from units.models import GpuUnit
from units.requests import GpuUnitUpdate
from units.services.outcomes import unit_changed, unit_deletion_sent

UNIT: Final = Target(GPU_UNIT, GpuUnit, "GPU unit")

REFUSED_STOP_SECONDS: Final = 60.0


def update(cluster: Cluster, operation: Operation) -> Outcome:
    """Change image, template or access of the unit."""
    found = UNIT.read(cluster, operation)
    if found is None:
        return UNIT.missing(operation)
    if is_applied(found, operation):
        return Done(found)  # Rule `applied`: this one, or a later one that replaces it.
    version = operation.payload.get(IF_MATCH)
    metadata = found["metadata"]
    if version not in {None, version_of(metadata["uid"], metadata["generation"])}:
        error = stale(f"the GPU unit '{operation.object_name}'")
        return Failed(error.code, error.message)
    try:
        wanted = _body(operation).applied_to(_spec(found))
    except InvalidSpec as error:
        return Failed("invalid_request", f"The change of the GPU unit is invalid: {error}")
    spec = replacement(found.get("spec") or {}, wanted.normalised())
    return UNIT.change(cluster, operation, found, spec)


def stop(cluster: Cluster, operation: Operation) -> Outcome:
    """Suspend the unit. A stop never fails; without the unit there is nothing to stop."""
    found = UNIT.read(cluster, operation)
    if found is None:
        return Done()
    if is_applied(found, operation):
        return Done(found)
    try:
        changed = UNIT.change(cluster, operation, found, {"suspend": True})
    except ClusterRejected as error:
        return Waiting(OperationWait.CLUSTER_REJECTED, str(error), REFUSED_STOP_SECONDS)
    return changed if isinstance(changed, Done) else Done()


def settle_change(operation: Operation, outcome: Done | Failed) -> None:
    """Copy the changed unit."""
    if isinstance(outcome, Done):
        unit_changed(operation, outcome.resource)


def settle_delete(operation: Operation, outcome: Done | Failed) -> None:
    """Have the reconciler confirm the deletion."""
    if isinstance(outcome, Done):
        unit_deletion_sent(operation)


def _body(operation: Operation) -> GpuUnitUpdate:
    payload = {key: value for key, value in operation.payload.items() if key != IF_MATCH}
    return GpuUnitUpdate.parse({**payload, "operationID": operation.operation_id})


def _spec(found: Manifest) -> GPUUnitSpec:
    return parse_unit_spec(found.get("spec") or {})
