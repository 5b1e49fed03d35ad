"""When a unit has ended and released its GPUs, for the usage ledger. Pure."""

from gpuplatform.kube.kinds import Manifest
from gpuplatform.planning.plan import Present
from gpuplatform.planning.view import ResourceView
from units.core.child import has_observed_zero, is_at_rest
from units.core.endings import has_ended
from units.core.observed import ObservedUnit


def has_released(unit: Manifest, observed: ObservedUnit) -> bool:
    """Return whether the unit has ended, cannot create a pod, and has no pod that holds GPUs.

    The unit was read before its objects, and its pods after them (rule `readorder` of the ledger).
    A lack of pods alone is not an end: a unit that is to run waits for its pod (`onlyended`).
    """
    view = ResourceView.of(unit)
    if not isinstance(observed.pods, Present) or observed.has_gpu(view):
        return False
    if has_ended(view, observed.job):
        return True
    spec = unit.get("spec") or {}
    is_stopped = spec.get("suspend") is True or observed.is_start_void
    live = observed.live(observed.kind)
    return (
        is_stopped
        and is_at_rest(view, observed.kind, live)
        and has_observed_zero(observed.kind, live)
    )
