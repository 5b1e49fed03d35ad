"""Conditional changes, which apply only to the version of a resource that the caller read."""

from typing import Final

from gpuplatform.errors import StaleEtag
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES

IF_MATCH: Final = "ifMatch"
"""Key in the payload of a change with the version that the caller read."""


def version_of(uid: str, generation: int) -> str:
    """Return the identifier of a version of a spec, empty if the resource does not exist yet."""
    return f"{uid}-{generation}" if uid else ""


def check_version(operation: Operation, expected: str | None, current: str, noun: str) -> None:
    """Check that the version that a conditional change expects is current and remains current.

    Must be called in the transaction that accepts `operation`, with the row of the object locked.
    If `expected` is `None`, the change is unconditional.

    Raises:
        StaleEtag: If the object has another version or another operation on it is open.
    """
    if expected is None:
        return
    others = Operation.objects.filter(
        object_kind=operation.object_kind,
        object_namespace=operation.object_namespace,
        object_name=operation.object_name,
        phase__in=OPEN_PHASES,
    ).exclude(pk=operation.pk)
    if expected != current:
        raise stale(noun)
    if others.exists():
        msg = f"A change of {noun} is in progress. Wait until it is complete, then read it again."
        raise StaleEtag(msg)


def stale(noun: str) -> StaleEtag:
    """Return the error for a version that is not current."""
    return StaleEtag(f"{noun[0].upper()}{noun[1:]} was changed after it was read. Read it again.")
