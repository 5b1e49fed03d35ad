"""No route shows or changes anything of another tenant, and it responds as to an unknown object.

The matrix has each route and method of the resolver, and the owner, a viewer, a member of another
tenant, an operator and a caller without a token. The objects contain the text `canary`, which only
the owner's tenant may read; what a viewer may not read contains `secret`.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest
from django.apps import apps
from django.db import models
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from typing_extensions import override

from gpuplatform.api.endpoint import Endpoint, endpoint_of_class
from gpuplatform.clock import now
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.permissions import PERMISSIONS, Method, Permission, Role, Scope
from serverless.models import Invocation
from serverless.phases import InvocationState
from serverless.requests import WebhookSecretCreate
from serverless.services.webhook_secrets import webhook_secret_create
from tests.factories.people import api_of, member
from tests.factories.serverless import accept, function_row
from tests.factories.unit_rows import unit_row

CANARY: Final = "canary"
SECRET: Final = "canary-secret"
HOOK: Final = f"https://hooks.example.com/{SECRET}"
ABSENT: Final = "absent-0"
NAME: Final = "canary-0"

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.usefixtures("cluster", "broker", "catalogue", "objects"),
]


@dataclass(frozen=True)
class Route:
    """One method of one route."""

    name: str
    method: str
    endpoint: Endpoint
    variables: tuple[str, ...]

    @override
    def __str__(self) -> str:
        return f"{self.method} {self.name}"

    @property
    def needs(self) -> Permission:
        """The permission that the method requires."""
        return PERMISSIONS[self.name][Method(self.method)]

    @property
    def is_of_tenants(self) -> bool:
        """Whether the route shows objects of the caller's tenant only."""
        return self.needs not in {Permission.PUBLIC, Permission.OPERATOR}


def routes(resolver: URLResolver) -> Iterator[Route]:
    for one in resolver.url_patterns:
        if isinstance(one, URLResolver):
            yield from routes(one)
            continue
        name = str(one.name)
        for method in PERMISSIONS.get(name, {}):
            endpoint = endpoint_of_class(getattr(one.callback, "cls", None), method)
            if endpoint is not None:
                yield Route(name, method, endpoint, _variables(one))


def _variables(pattern: URLPattern) -> tuple[str, ...]:
    return tuple(pattern.pattern.converters)


ROUTES = list(routes(get_resolver()))
OF_TENANTS = [route for route in ROUTES if route.is_of_tenants]
OF_ONE = [route for route in OF_TENANTS if route.variables]


@dataclass(frozen=True)
class Reply:
    """The status and the text of a response, without what differs between all responses."""

    status: int
    text: str


def send(
    client: Client, route: Route, name: str, operation_id: str = "op-1", **query: str
) -> Reply:
    """Send a valid request about the object with this name."""
    path = reverse(route.name, kwargs=dict.fromkeys(route.variables, name))
    body = b""
    if route.endpoint.body is not None:
        example = route.endpoint.request_example(operation_id)
        if route.variables and "requestID" in example:
            example["requestID"] = name
        body = json.dumps(example).encode()
    if "operation_id" in route.endpoint.query.model_fields:
        query["operationID"] = operation_id
    response = client.generic(
        route.method, path, body, "application/json", query_params=query or None
    )
    text = b"".join(getattr(response, "streaming_content", [getattr(response, "content", b"")]))
    readable = text.decode()
    readable = readable.replace(response.headers["X-Request-ID"], "")
    # The response names the object of the request. A list must not name it.
    return Reply(
        response.status_code, readable.replace(name, "NAME") if route.variables else readable
    )


@pytest.fixture
def alpha(db: None) -> Tenant:
    return Tenant.objects.create(name="alpha", namespace="tenant-alpha")


@pytest.fixture
def beta(db: None) -> Tenant:
    return Tenant.objects.create(name="beta", namespace="tenant-beta")


@pytest.fixture
def objects(alpha: Tenant, cluster: object, broker: object) -> None:
    """One object of each kind of the tenant alpha, all with the same name."""
    template = {"envs": [{"name": "CANARY", "value": SECRET}], "ports": []}
    spec = {"specName": "g1.1", "image": f"{CANARY}:1", "gpu": 1, "template": template}
    place: Mapping[str, Any] = {"tenant": alpha, "namespace": alpha.namespace, "spec": spec}
    unit_row(name=NAME, image=f"{CANARY}:1", message=CANARY, **place)
    group = {"name": NAME, "rank": 0, "size": 1}
    unit_row(
        name=f"{NAME}-0",
        group_name=NAME,
        group_rank=0,
        **{**place, "spec": {**spec, "group": group}},
    )
    function = function_row(NAME, tenant=alpha, template=template, onDone={"url": HOOK})
    webhook_secret_create(tenant=alpha, request_id=NAME, body=WebhookSecretCreate.parse({}))
    type(function.operation).objects.filter(pk=function.operation_id).update(operation_id=NAME)
    invocation = accept(function, SECRET, invocationID=NAME)
    Invocation.objects.filter(pk=invocation.pk).update(
        state=InvocationState.SUCCEEDED,
        completed_at=now(),
        status_code=200,
        result_body=SECRET.encode(),
        result_bytes=len(SECRET),
        result_headers={"x-canary": SECRET},
        result_content_type="text/plain",
        on_done_url=HOOK,
    )
    member(alpha, NAME, Role.VIEWER)
    api_of(alpha, Scope.READ, name=NAME)


def rows_of(tenant: Tenant) -> dict[str, list[dict[str, Any]]]:
    """Return all rows with the tenant, without the times at which tokens were used."""
    found = {}
    for model in apps.get_models():
        fields = {field.name: field for field in model._meta.get_fields()}
        if isinstance(fields.get("tenant"), models.ForeignKey) and not model._meta.proxy:
            rows = model._default_manager.filter(tenant=tenant).order_by("pk").values()
            found[model._meta.label] = [
                {key: value for key, value in row.items() if key != "last_used_at"} for row in rows
            ]
    return found


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
