"""No route shows or changes anything of another tenant, and it responds as to an unknown object.

The matrix has each route and method of the resolver, and the owner, a viewer, a member of another
tenant, an operator and a caller without a token. The objects contain the text `canary`, which only
the owner's tenant may read; what a viewer may not read contains `secret`.
"""

from collections.abc import Callable, Mapping
from typing import Final

import pytest
from django.test import Client

from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.permissions import PERMISSIONS, Permission, Scope
from tests.api.access.matrix import (
    ABSENT,
    CANARY,
    HOOK,
    NAME,
    OF_ONE,
    OF_TENANTS,
    ROUTES,
    SECRET,
    Route,
    rows_of,
    send,
)
from tests.factories.people import api_of

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.usefixtures("cluster", "broker", "catalogue", "objects"),
]


def test_the_matrix_has_all_routes_of_tenants() -> None:
    assert {route.name for route in OF_ONE} >= {
        *("gpu-unit", "gpu-unit-logs", "unit-group", "function", "invocation", "operation"),
        *("token", "member"),
    }
    assert {(route.name, route.method) for route in ROUTES} == {
        (name, method)
        for name, methods in PERMISSIONS.items()
        for method in methods
        if name != "schema"
    }


@pytest.mark.parametrize("route", OF_ONE, ids=str)
def test_another_tenant_gets_the_response_for_an_unknown_object(
    route: Route, alpha: Tenant, beta: Tenant
) -> None:
    client, before = api_of(beta).client, rows_of(alpha)

    theirs, missing = send(client, route, NAME), send(client, route, ABSENT)

    assert CANARY not in theirs.text
    assert rows_of(alpha) == before
    if (route.name, route.method) not in OF_PLATFORM:
        assert theirs == missing
        assert theirs.status == 404


OF_PLATFORM: Final = {("member", "PUT")}
"""Requests about a user of the platform, whom each admin can add to the own tenant."""


@pytest.mark.parametrize("query", [{}, {"search": CANARY}, {"namespace": "tenant-alpha"}])
@pytest.mark.parametrize("route", [route for route in OF_TENANTS if not route.variables], ids=str)
def test_another_tenant_gets_no_byte_from_a_list_and_changes_nothing(
    route: Route, query: dict[str, str], alpha: Tenant, beta: Tenant
) -> None:
    client, before = api_of(beta).client, rows_of(alpha)

    reply = send(client, route, NAME, **query)

    assert CANARY not in reply.text.replace(str(query.get("search")), "")
    assert reply.status < 500
    assert rows_of(alpha) == before


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_a_caller_without_a_token_gets_nothing(route: Route, alpha: Tenant) -> None:
    before = rows_of(alpha)

    theirs, missing = send(Client(), route, NAME), send(Client(), route, ABSENT)

    assert theirs == missing or not route.variables
    assert CANARY not in theirs.text
    assert route.needs == Permission.PUBLIC or theirs.status == 401
    assert rows_of(alpha) == before


@pytest.mark.parametrize("route", OF_TENANTS, ids=str)
def test_an_operator_has_no_access_to_routes_of_tenants(
    route: Route, alpha: Tenant, beta: Tenant
) -> None:
    client, before = api_of(beta, Scope.OPERATOR).client, rows_of(alpha)

    theirs, missing = send(client, route, NAME), send(client, route, ABSENT)

    assert theirs == missing or not route.variables
    assert CANARY not in theirs.text
    assert theirs.status == 403 or route.needs == Permission.TOKEN
    assert rows_of(alpha) == before


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_a_viewer_reads_no_secret_and_changes_nothing(route: Route, alpha: Tenant) -> None:
    client = api_of(alpha, Scope.READ, name="viewer").client
    before = rows_of(alpha)

    reply = send(client, route, NAME)

    assert SECRET not in reply.text
    if route.needs not in {Permission.PUBLIC, Permission.TOKEN, Permission.READ}:
        assert reply.status == 403
    assert rows_of(alpha) == before


def is_named(text: str) -> bool:
    """Return whether a response contains the name of the object."""
    return NAME in text or "NAME" in text


OWN: Final[Mapping[str, Callable[[str], bool]]] = {
    **dict.fromkeys(("unit-groups", "unit-group", "operation", "operations"), is_named),
    **dict.fromkeys(("tokens", "members", "gpu-units"), is_named),
    "gpu-unit": lambda text: SECRET in text,
    **dict.fromkeys(("function", "functions", "invocations"), lambda text: HOOK in text),
    "invocation": lambda text: text.count(SECRET) >= 3,
}
"""What the owner's token reads, so that the matrix shows something if a filter is missing."""


@pytest.mark.parametrize("name", sorted(OWN))
def test_the_owner_reads_its_objects(name: str, alpha: Tenant) -> None:
    [route] = [route for route in OF_TENANTS if (route.name, route.method) == (name, "GET")]

    reply = send(api_of(alpha).client, route, NAME)

    assert reply.status == 200
    assert OWN[name](reply.text), reply.text


@pytest.mark.parametrize(
    ("scopes", "has_payloads", "has_values"),
    [
        ((Scope.READ,), False, False),
        ((Scope.READ, Scope.WRITE), False, True),
        ((Scope.READ, Scope.PAYLOADS), True, False),
        ((Scope.USER,), True, True),
    ],
)
def test_payloads_and_values_have_their_own_permissions(
    alpha: Tenant, scopes: tuple[Scope, ...], has_payloads: bool, has_values: bool
) -> None:
    api = api_of(alpha, *scopes)

    invocation = api.get(f"/api/v1/serverless/invocations/{NAME}").data
    unit = api.get(f"/api/v1/gpu-units/{NAME}").data
    function = api.get(f"/api/v1/serverless/functions/{NAME}").data

    result = invocation["result"]
    assert (result["body"] == SECRET) == has_payloads
    assert (result["headers"] == {"x-canary": SECRET}) == has_payloads
    assert bool(result["href"]) == has_payloads
    assert invocation["webhook"]["url"] == (HOOK if has_values else "https://hooks.example.com/")
    assert function["onDone"]["url"] == (HOOK if has_values else "https://hooks.example.com/")
    for one in (unit, function):
        [variable] = one["template"]["envs"]
        assert variable == {"name": "CANARY", "value": SECRET if has_values else "(hidden)"}
