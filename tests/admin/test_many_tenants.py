"""With 1,000 tenants, a page of the admin needs at most 12 queries."""

from collections.abc import Iterator

import pytest
from django.contrib.admin.sites import site
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import get_resolver, reverse

from tests.factories.many_tenants import many_tenants
from tests.fakes.installed import cluster

__all__ = ["cluster"]

TENANTS = 1_000
MOST_QUERIES = 12
FRAMEWORK = {
    *("login", "logout", "password_change", "password_change_done", "jsi18n", "autocomplete"),
}
"""Pages without rows of the platform."""

pytestmark = pytest.mark.django_db


def pages() -> Iterator[tuple[str, str]]:
    """Yield the names and addresses of the pages: all without arguments, and one of each row."""
    [(_, admin)] = [
        found for found in get_resolver().namespace_dict.values() if found[0].startswith("admin")
    ]
    for name, patterns in admin.reverse_dict.lists():
        if isinstance(name, str) and name not in FRAMEWORK and not patterns[0][0][0][1]:
            yield name, reverse(f"admin:{name}")
    for model, of_model in site._registry.items():
        row = of_model.model._default_manager.order_by("-pk").first()
        if row is not None:
            name = f"{model._meta.label_lower.replace('.', '_')}_change"
            yield name, reverse(f"admin:{name}", args=[row.pk])


def test_no_page_needs_more_than_12_queries(operator_client: Client, cluster: object) -> None:
    many_tenants(TENANTS)
    shown, found = 0, {}

    for name, page in pages():
        with CaptureQueriesContext(connection) as captured:
            response = operator_client.get(page)
        assert response.status_code < 500, page
        shown += response.status_code == 200
        found[name] = len(captured)

    assert shown >= len(site._registry), found
    more = {name: number for name, number in found.items() if number > MOST_QUERIES}
    assert more == {}
