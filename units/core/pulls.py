"""Decides whether a unit that cannot start on its node is started on another node. Pure.

The image pull failed there, or the node of its source no longer accepts its pod. The unit is
stopped and started once more, with a stock unit of another node. An annotation of the unit names
the node: the pods of that start avoid the node, and a second failure is final.
"""

from collections.abc import Sequence
from typing import Final

from gpuplatform.errors import InvalidSpec
from gpuplatform.kube.fields import text
from gpuplatform.kube.kinds import Manifest
from gpuplatform.workloads.causes import StartupCause
from gpuplatform.workloads.nodes import PodRequirements, node_rejection
from gpuplatform.workloads.startup import startup_failure, unschedulable_seconds
from units.core.observed import ObservedUnit
from units.core.view import UnitView

LOST_SECONDS: Final = 10.0
"""Time in seconds for which a pod must be unschedulable before the unit is started on another
node, if the node of its source would accept it but has no GPU left."""


def node_to_leave(unit: Manifest, observed: ObservedUnit) -> str:
    """Return the node on which `unit` cannot start, if another node can be tried.

    Returns an empty string if another node was tried already, for stock, for units without a
    source, and for workers of functions, which the platform replaces.
    """
    try:
        view = UnitView.parse(unit)
    except InvalidSpec:
        return ""
    is_tried = bool(view.avoided_node) or view.is_stock or view.source is None
    if is_tried or view.spec.suspend or observed.is_start_void or view.spec.serverless:
        return ""
    pods = observed.own_pods(view)
    return _node_of_failed_pull(pods, observed) or _lost_node(view, pods, observed)


def _node_of_failed_pull(pods: Sequence[Manifest], observed: ObservedUnit) -> str:
    for pod in pods:
        failure = startup_failure([pod], {}, observed.at)
        is_pull = failure is not None and failure.cause == StartupCause.IMAGE_PULL_FAILED
        # An invalid image name is invalid on every node.
        if failure and is_pull and failure.is_transient:
            return text(pod, "spec", "nodeName")
    return ""


def _lost_node(unit: UnitView, pods: Sequence[Manifest], observed: ObservedUnit) -> str:
    """Return the node of the source, if the pod of the unit can no longer be scheduled there.

    While the pods of the source end, the node may seem to have no GPU left, so that this reason
    counts only after some time.
    """
    record = observed.source_node
    start = startup_failure(pods, {})
    if record is None or start is None or start.cause != StartupCause.UNSCHEDULABLE:
        return ""
    waited = max(unschedulable_seconds(pod, observed.at) for pod in pods)
    requirements = PodRequirements.of_spec(unit.spec.normalised())
    rejection = node_rejection(record.state, requirements, record.room)
    is_full = rejection is None or rejection.cause == StartupCause.GPUS_MISSING
    return "" if is_full and waited < LOST_SECONDS else record.state.name
