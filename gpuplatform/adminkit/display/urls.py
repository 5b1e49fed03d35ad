"""URLs of the admin pages of a model and of a row."""

from typing import Any

from django.contrib.admin.templatetags.admin_urls import admin_urlname
from django.urls import reverse


def page_url(row: Any) -> str:
    """Return the URL of the page of a row."""
    return reverse(admin_urlname(row._meta, "change"), args=[row.pk])  # noqa: SLF001 - public API


def list_url(model: Any) -> str:
    """Return the URL of the list of a model."""
    return reverse(admin_urlname(model._meta, "changelist"))  # noqa: SLF001 - public API
