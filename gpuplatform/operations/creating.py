"""What a create does about an object that has its name already."""

from typing import Final

from gpuplatform.kube.kinds import Manifest
from gpuplatform.operations.models import Operation
from gpuplatform.operations.provenance import bears
from gpuplatform.operations.registry import Done, Refused, Waiting
from gpuplatform.operations.selectors import is_leftover, operation_of

LEFTOVER_SECONDS: Final = 2.0


def outcome_of_found(found: Manifest, operation: Operation, noun: str) -> Done | Waiting | Refused:
    """Return how the create goes on: the object is its own, a leftover, or somebody's.

    `noun` names the kind to people, as in "A stock pool". Rule `leftover` of the hand-over model:
    what a late write of an ended operation left is no name conflict.
    """
    if bears(found, operation):
        return Done(found)
    if is_leftover(found, operation_of(found)):
        return Waiting(
            "LeftoverInTheWay",
            "A late write of an ended operation left an object of that name; it is being removed.",
            LEFTOVER_SECONDS,
        )
    return Refused(
        "name_conflict",
        f"{noun} '{operation.object_name}' that this operation did not make exists in the"
        f" namespace '{operation.object_namespace}'. Choose another name.",
        resource=found,
    )
