"""The routes of the matrix of callers, and the requests to them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from django.apps import apps
from django.db import models
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from typing_extensions import override

from gpuplatform.api.endpoint import Endpoint, endpoint_of_class
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.permissions import PERMISSIONS, Method, Permission

CANARY: Final = "canary"
SECRET: Final = "canary-secret"
HOOK: Final = f"https://hooks.example.com/{SECRET}"
ABSENT: Final = "absent-0"
NAME: Final = "canary-0"


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
