"""The table of permissions has an entry for each method of each route, and is the only rule."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework.views import APIView

from gpuplatform.api.endpoint import endpoint_of_class
from gpuplatform.api.request_log import UNKNOWN_ADDRESS
from gpuplatform.tenancy.authentication import CallerPermission, TokenAuthentication
from gpuplatform.tenancy.permissions import (
    PERMISSIONS,
    ROLE_PERMISSIONS,
    SCOPE_PERMISSIONS,
    Method,
    Permission,
    Role,
    Scope,
    permissions_needed,
    permissions_of_scopes,
)


def routes(prefix: str, resolver: URLResolver) -> Iterator[tuple[str, str, Any]]:
    """Yield the name, the address and the view class of each route of the API."""
    for one in resolver.url_patterns:
        address = f"{prefix}{one.pattern}"
        if isinstance(one, URLPattern):
            if address.startswith("api/v1/"):
                yield str(one.name), address, getattr(one.callback, "cls", None)
        else:
            yield from routes(address, one)


ROUTES = list(routes("", get_resolver()))
VIEWS = {name: view for name, _, view in ROUTES if view is not None}


def test_each_route_has_one_name_and_one_view() -> None:
    names = [name for name, _, _ in ROUTES]

    assert len(names) == len(set(names))
    assert len(set(VIEWS.values())) == len(VIEWS)
    assert {name for name, _, view in ROUTES if view is None} == {"schema"}
    assert UNKNOWN_ADDRESS not in names


def test_the_table_has_each_method_of_each_route_and_no_other() -> None:
    served = {
        name: {method for method in Method if endpoint_of_class(view, method)}
        for name, view in VIEWS.items()
    }
    served["schema"] = {Method.GET}

    assert {name: set(methods) for name, methods in PERMISSIONS.items()} == served


@pytest.mark.parametrize("name", sorted(VIEWS))
def test_no_view_has_a_rule_of_its_own(name: str) -> None:
    view: type[APIView] = VIEWS[name]

    assert view.permission_classes == [CallerPermission]
    assert view.authentication_classes == [TokenAuthentication]


def test_routes_for_operators_require_their_permission_and_others_do_not() -> None:
    for name, address, _ in ROUTES:
        is_for_operators = "/operator/" in address or name == "invocation-replay"
        needed = set(PERMISSIONS[name].values())
        assert (needed == {Permission.OPERATOR}) == is_for_operators, name


def test_a_route_without_an_entry_is_closed() -> None:
    assert permissions_needed("unknown", "GET") == frozenset()


@pytest.mark.parametrize(
    ("method", "needed"),
    [
        ("GET", {Permission.READ}),
        ("HEAD", {Permission.READ}),
        ("POST", {Permission.WRITE}),
        ("OPTIONS", {Permission.READ, Permission.WRITE}),
        ("PATCH", {Permission.READ, Permission.WRITE}),
    ],
)
def test_methods_that_a_route_does_not_declare(method: str, needed: set[Permission]) -> None:
    assert permissions_needed("gpu-units", method) == needed


def test_the_scope_user_is_an_alias_of_three_scopes() -> None:
    assert SCOPE_PERMISSIONS.keys() == set(Scope)
    assert permissions_of_scopes([Scope.USER]) == permissions_of_scopes(
        [Scope.READ, Scope.WRITE, Scope.PAYLOADS]
    )
    assert permissions_of_scopes(["of-a-later-release"]) == {Permission.TOKEN}


def test_each_role_includes_the_one_before_and_none_is_an_operator() -> None:
    assert ROLE_PERMISSIONS.keys() == set(Role)
    assert (
        ROLE_PERMISSIONS[Role.VIEWER]
        < ROLE_PERMISSIONS[Role.MEMBER]
        < ROLE_PERMISSIONS[Role.ADMIN]
    )
    assert Permission.OPERATOR not in ROLE_PERMISSIONS[Role.ADMIN]
