"""What a create does about an object, or a row, that has its name already."""

from typing import Any, Final

from django.db.models import QuerySet

from gpuplatform.errors import FieldError, NameConflict
from gpuplatform.kube.kinds import Manifest
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationWait
from gpuplatform.operations.provenance import bears
from gpuplatform.operations.registry import Done, Failed, Waiting
from gpuplatform.operations.selectors import is_leftover, operation_of

LEFTOVER_SECONDS: Final = 2.0


GOING_SECONDS: Final = 5


def name_conflict(
    holders: QuerySet[Any], what: str, *, where: str = "", field: str = "name"
) -> NameConflict:
    """Return the refusal of a name: `holders` are the rows that have, or had, it.

    `what` names the object to people, as in "stock pool 'h100'".
    """
    details = [FieldError(field, "Is in use.")]
    going = holders.filter(deleted_at__isnull=True, deletion_requested_at__isnull=False)
    if going.exists():
        msg = f"The {what} is still being deleted. Try again when it is gone."
        return NameConflict(msg, details=details, retry_after=GOING_SECONDS)
    return NameConflict(f"There is a {what}{where}. Choose another name.", details=details)


def outcome_for_existing(
    found: Manifest, operation: Operation, noun: str
) -> Done | Waiting | Failed:
    """Return how the create goes on: the object is its own, a leftover, or somebody's.

    `noun` names the kind to people, as in "A stock pool". Rule `leftover` of the hand-over model:
    what a late write of an ended operation left is no name conflict.
    """
    if bears(found, operation):
        return Done(found)
    if is_leftover(found, operation_of(found)):
        return Waiting(
            OperationWait.LEFTOVER_IN_THE_WAY,
            "A late write of an ended operation left an object of that name; it is being removed.",
            LEFTOVER_SECONDS,
        )
    return Failed(
        "name_conflict",
        f"{noun} '{operation.object_name}' that this operation did not make exists in the"
        f" namespace '{operation.object_namespace}'. Choose another name.",
        resource=found,
    )
