"""With 1,000 tenants, each list and object of the API needs at most 12 queries."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from gpuplatform.tenancy.permissions import Scope
from tests.api.access.matrix import ROUTES, Route
from tests.factories.many_tenants import many_tenants
from tests.factories.people import api_of

TENANTS = 1_000
MOST_QUERIES = 12
NAMES = {
    **dict.fromkeys(("gpu-unit", "gpu-unit-events", "gpu-unit-history"), "waits"),
    **dict.fromkeys(("operation", "job"), "create-waits"),
    **dict.fromkeys(("tenant", "tenant-limits", "tenant-members"), "many-0007"),
    "function": "echo",
    "invocation": "order-1",
    "available-gpu-spec": "g1.1",
    "gpu-spec": "g1.1",
}
"""The names of the objects that exist."""
READS = [route for route in ROUTES if route.method == "GET"]

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("cluster", "broker")]


def read(route: Route, clients: dict[bool, Any]) -> tuple[int, int]:
    """Return the status of a response, and the number of queries."""
    name = NAMES.get(route.name, "absent-0")
    path = reverse(route.name, kwargs=dict.fromkeys(route.variables, name))
    query = {"limit": "100"} if "limit" in route.endpoint.query.model_fields else None
    with CaptureQueriesContext(connection) as captured:
        response = clients[route.is_of_tenants].get(path, query)
        b"".join(getattr(response, "streaming_content", ()))
    return response.status_code, len(captured)


def test_no_read_needs_more_than_12_queries() -> None:
    tenant = many_tenants(TENANTS)[7]
    clients = {
        True: api_of(tenant, Scope.USER, Scope.ADMIN).client,
        False: api_of(tenant, Scope.OPERATOR).client,
    }

    found = {route.name: read(route, clients) for route in READS}

    assert {name for name in NAMES if found[name][0] != 200} == set()
    more = {name: number for name, (_, number) in found.items() if number > MOST_QUERIES}
    assert more == {}
