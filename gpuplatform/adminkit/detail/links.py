"""Registry of the pages of objects by kind, so that an operation's page links to its object."""

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
    """The page of a kind's objects, and how other pages show one of them."""

    url_name: str
    rows: ReadRows
    steps: ReadSteps | None = None
    """The timeline of an object, for the page of the operation that created it."""
    subject: ReadSubject | None = None
    """The subject of live data: None where the object is gone or the user may not view it."""


_PAGES: dict[str, ObjectPage] = {}


def register_object_page(kind: str, page: ObjectPage) -> None:
    """Register the page of a Kubernetes kind's objects; called by the `admin.py` of its app."""
    _PAGES[kind] = page


def object_url(kind: str, row: int | None) -> str:
    """Return the address of the page of an object's row; empty without a row or a page."""
    if row is None or kind not in _PAGES:
        return ""
    return reverse(_PAGES[kind].url_name, args=[row])


def object_rows(kind: str, row: int | None) -> Sequence[RelatedRow]:
    """Return an object's row as a line; empty if it is gone or its kind has no page."""
    if row is None or kind not in _PAGES:
        return ()
    return _PAGES[kind].rows(row)


def object_steps(kind: str, row: int | None) -> Sequence[Step]:
    """Return the timeline of an object; empty if its kind has none."""
    page = _PAGES.get(kind)
    if row is None or page is None or page.steps is None:
        return ()
    return page.steps(row)


def object_subject(request: HttpRequest, kind: str, row: int | None) -> Subject | None:
    """Return the subject of live data about an object; None where there is nothing to read."""
    page = _PAGES.get(kind)
    if row is None or page is None or page.subject is None:
        return None
    return page.subject(request, row)
