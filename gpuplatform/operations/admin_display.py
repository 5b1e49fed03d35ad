"""Titles and timelines of operations in the admin.

An operation of the kind `unit.create` has the title `Create GPU unit trainer`. The API and the
facts of the page show the kind itself.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from gpuplatform.adminkit.display.badges import Shape
from gpuplatform.adminkit.display.text import humanize, shortened, visible
from gpuplatform.adminkit.display.timeline import Step
from gpuplatform.adminkit.display.urls import page_url
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationPhase

_NOUNS: Final[Mapping[str, str]] = {
    "unit": "GPU unit",
    "group": "unit group",
    "stockpool": "stock pool",
    "gpuspec": "GPU spec",
    "job": "operation",
}
_VERBS: Final[Mapping[str, str]] = {"update": "Change"}
_SEED: Final = "stock.seed"
_TITLES: Final[Mapping[str, str]] = {
    "stock.remove": "Remove stock unit",
    "tenant.limits": "Change limits of tenant",
}
"""Titles of kinds that are not composed of verb and noun."""
_CREATING: Final = frozenset(
    {"stockpool.create", "unit.create", "group.create", "tenant.create", _SEED}
)


def kind_title(kind: str) -> str:
    """Return the title of a kind of operation, such as `Create GPU unit` for `unit.create`."""
    if kind in _TITLES:
        return _TITLES[kind]
    noun, _, verb = kind.partition(".")
    return f"{_VERBS.get(verb) or humanize(verb)} {_NOUNS.get(noun, noun)}".strip()


def operation_subject(operation: Operation) -> str:
    """Return the name of the object of an operation, or the GPU spec of a seeding."""
    spec = operation.payload.get("specName") if operation.kind == _SEED else None
    return visible(str(spec or operation.object_name))


def operation_title(operation: Operation) -> str:
    """Return the title of an operation, such as `Create GPU unit trainer`."""
    return f"{kind_title(operation.kind)} {operation_subject(operation)}".strip()


def operation_steps(operation: Operation | None) -> Iterator[Step]:
    """Yield the timeline of an operation: its acceptance, then its end or its current wait."""
    if operation is None:
        return
    caller = f", requested by {visible(operation.asked_by)}" if operation.asked_by else ""
    text, url = visible(operation.operation_id) + caller, page_url(operation)
    yield Step("Accepted", operation.created_at, text=text, url=url)
    # A successful create means that the object exists in the cluster, not that it is ready.
    success = "In the cluster" if operation.kind in _CREATING else "Done"
    match operation.phase:
        case OperationPhase.SUCCEEDED:
            yield Step(success, operation.ended_at, text=_outcome(operation))
        case OperationPhase.FAILED:
            message = shortened(operation.error_message)
            yield Step("Failed", operation.ended_at, Shape.FAILED, message)
        case OperationPhase.CANCELLED:
            yield Step("Cancelled", operation.ended_at, Shape.OFF)
        case _:
            reason = operation.reason
            waits = f"waiting: {humanize(reason)}" if reason else "not yet"
            yield Step(success, None, Shape.OFF, waits)


def _outcome(operation: Operation) -> str:
    if operation.progress_total > 1:
        return f"{operation.progress_done} of {operation.progress_total} done"
    return f"{operation.object_kind} {operation.object_name}".strip()
