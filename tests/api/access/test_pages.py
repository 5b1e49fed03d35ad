"""Each GET route responds to a browser with a page, and never with an internal error."""

import pytest
from django.test import Client
from django.urls import reverse

from gpuplatform.audit.services.entries import secret_read
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.permissions import Scope
from tests.api.access.matrix import NAME, ROUTES, Route
from tests.factories.admin_rows import Rows
from tests.factories.people import api_of

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.usefixtures("cluster", "broker", "catalogue", "objects"),
]

READS = [route for route in ROUTES if route.method == "GET"]


@pytest.mark.parametrize("route", READS, ids=str)
def test_a_browser_gets_a_page(route: Route, alpha: Tenant) -> None:
    client: Client = api_of(alpha, Scope.USER, Scope.ADMIN, Scope.OPERATOR).client
    secret_read("export", "UsageRecord", tenant="alpha")
    Rows().pool()

    path = reverse(route.name, kwargs=dict.fromkeys(route.variables, NAME))
    response = client.get(path, headers={"accept": "text/html"})

    assert response.status_code < 500
    if response.status_code == 200 and route.endpoint.replies:
        assert response["Content-Type"].startswith("text/html")
