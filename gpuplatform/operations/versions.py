"""Conditional changes: a change of exactly the version of a resource that the caller read."""

from typing import Final

from gpuplatform.errors import StaleEtag
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES

IF_MATCH: Final = "ifMatch"
"""In the payload of a change: the version that the caller read."""


def version_of(uid: str, generation: int) -> str:
    """Return the name of a version of a resource's spec; empty until the resource exists."""
    return f"{uid}-{generation}" if uid else ""


def check_version(operation: Operation, expected: str | None, current: str, noun: str) -> None:
    """Accept a conditional change only if the version is current and stays so.

    Called in the transaction that accepts `operation`, with the object's row locked. Without
    `expected` the change is unconditional.

    Raises:
        StaleEtag: the object has another version, or another operation on it is open.
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
        msg = f"A change of {noun} is in progress. Wait for it, then read it again."
        raise StaleEtag(msg)


def stale(noun: str) -> StaleEtag:
    """Return the error for a version that is not the current one."""
    return StaleEtag(f"{noun[0].upper()}{noun[1:]} was changed after it was read. Read it again.")
