"""What a create does if a row or an object with its name exists."""

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
DELETION_SECONDS: Final = 5


def name_conflict(
    holders: QuerySet[Any], what: str, *, where: str = "", field: str = "name"
) -> NameConflict:
    """Return the error for a name in use: `holders` are the rows that have, or had, it.

    `what` is the object for the message, as in "stock pool 'h100'"; `where` is appended to it.
    """
    details = [FieldError(field, "Is in use.")]
    deleting = holders.filter(deleted_at__isnull=True, deletion_requested_at__isnull=False)
    if deleting.exists():
        msg = f"The {what} is still being deleted. Try again when it is deleted."
        return NameConflict(msg, details=details, retry_after=DELETION_SECONDS)
    return NameConflict(f"A {what} exists{where}. Choose another name.", details=details)


def outcome_for_existing(
    found: Manifest, operation: Operation, noun: str
) -> Done | Waiting | Failed:
    """Return the outcome of a create that found an object: its own, a leftover or another.

    `noun` is the kind for the message, as in "A stock pool". Rule `leftover` of the hand-over
    model: a leftover of an ended operation is not a name conflict.
    """
    if bears(found, operation):
        return Done(found)
    if is_leftover(found, operation_of(found)):
        return Waiting(
            OperationWait.LEFTOVER_IN_THE_WAY,
            "An ended operation left an object with that name; the platform deletes it.",
            LEFTOVER_SECONDS,
        )
    return Failed(
        "name_conflict",
        f"{noun} '{operation.object_name}' that this operation did not create exists in the"
        f" namespace '{operation.object_namespace}'. Choose another name.",
        resource=found,
    )
