"""With 1,000 tenants, each page of the admin needs at most 12 queries."""

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


def pages() -> Iterator[str]:
    """Yield each page without arguments, all lists included, and the page of one row of each."""
    [(_, admin)] = [
        found for found in get_resolver().namespace_dict.values() if found[0].startswith("admin")
    ]
    for name, patterns in admin.reverse_dict.lists():
        if isinstance(name, str) and name not in FRAMEWORK and not patterns[0][0][0][1]:
            yield reverse(f"admin:{name}")
    for model, of_model in site._registry.items():
        row = of_model.model._default_manager.order_by("-pk").first()
        if row is not None:
            label = model._meta.label_lower.replace(".", "_")
            yield reverse(f"admin:{label}_change", args=[row.pk])


def test_no_page_needs_more_than_12_queries(operator_client: Client, cluster: object) -> None:
    many_tenants(TENANTS)
    shown, found = 0, {}

    for page in pages():
        with CaptureQueriesContext(connection) as captured:
            response = operator_client.get(page)
        assert response.status_code < 500, page
        shown += response.status_code == 200
        found[page] = len(captured)

    assert shown >= 2 * len(site._registry) - 8, found
    assert {page: number for page, number in found.items() if number > MOST_QUERIES} == {}
