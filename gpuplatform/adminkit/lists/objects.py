"""Lookup of the admin page for a kind of object, so that other pages can show and link to it."""

from django.contrib.admin import site
from django.urls import reverse

from gpuplatform.adminkit.lists.model_admin import ObjectAdmin


def page_of_kind(kind: str) -> ObjectAdmin | None:
    """Return the page for a kind, such as `GPUUnit`, or `None` if the kind has no page."""
    pages = site._registry.values()  # noqa: SLF001 - Django has no public accessor
    found = (one for one in pages if isinstance(one, ObjectAdmin) and one.object_kind == kind)
    return next(found, None) if kind else None


def object_url(kind: str, row_id: int | None) -> str:
    """Return the URL of an object's page, or an empty string if it has no row or no page."""
    page = page_of_kind(kind)
    if row_id is None or page is None:
        return ""
    return reverse(f"admin:{page.url_name('change')}", args=[row_id])
