"""URLs of the admin pages of a model and of a row."""

from typing import Any

from django.urls import reverse


def page_url(row: Any) -> str:
    """Return the URL of the page of a row."""
    return reverse(_name(row, "change"), args=[row.pk])


def list_url(model: Any) -> str:
    """Return the URL of the list of a model."""
    return reverse(_name(model, "changelist"))


def _name(model: Any, view: str) -> str:
    options = model._meta  # noqa: SLF001 - public API
    return f"admin:{options.app_label}_{options.model_name}_{view}"
