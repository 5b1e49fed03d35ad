"""From an operation to the object that it names, without knowing the object's app."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.http import HttpRequest
from django.urls import reverse

from gpuplatform.adminkit.detail.panels import RelatedRow
from gpuplatform.adminkit.display.timeline import Step
from gpuplatform.reconciliation.inspection import Subject

ReadRows = Callable[[int], Sequence[RelatedRow]]
ReadSteps = Callable[[int], Sequence[Step]]
ReadSubject = Callable[[HttpRequest, int], Subject | None]


@dataclass(frozen=True, slots=True)
class ObjectPage:
    """The page of a kind's objects, and how one of them becomes a line on another page."""

    url_name: str
    rows: ReadRows
    steps: ReadSteps | None = None
    """How an object came to be, for the page of the job that made it."""
    subject: ReadSubject | None = None
    """What the cluster is asked about an object that is there and that the user may see."""


_PAGES: dict[str, ObjectPage] = {}


def register_object_page(kind: str, page: ObjectPage) -> None:
    """Say which page shows a Kubernetes kind's objects; called by the `admin.py` of its app."""
    _PAGES[kind] = page


def object_url(kind: str, row: int | None) -> str:
    """Return the address of the page of an object's row; empty if there is none."""
    if row is None or kind not in _PAGES:
        return ""
    return reverse(_PAGES[kind].url_name, args=[row])


def object_rows(kind: str, row: int | None) -> Sequence[RelatedRow]:
    """Return an object's row as a line; nothing if it is gone or of a kind without pages."""
    if row is None or kind not in _PAGES:
        return ()
    return _PAGES[kind].rows(row)


def object_steps(kind: str, row: int | None) -> Sequence[Step]:
    """Return how an object came to be; nothing if its kind does not say."""
    page = _PAGES.get(kind)
    if row is None or page is None or page.steps is None:
        return ()
    return page.steps(row)


def object_subject(request: HttpRequest, kind: str, row: int | None) -> Subject | None:
    """Return what the cluster is asked about an object; None where it has nothing to show."""
    page = _PAGES.get(kind)
    if row is None or page is None or page.subject is None:
        return None
    return page.subject(request, row)
