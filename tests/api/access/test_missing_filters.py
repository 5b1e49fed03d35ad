"""With each filter by tenant removed, the database still shows nothing of another tenant.

Each route of tenants runs again for each condition of its statements that names the tenant or its
namespace, without that condition, and once without all of them. The filters are found while the
route runs, so that a new one is included.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

import pytest
from django.db.models import QuerySet

from gpuplatform.postgresql.compiled import CompiledQuery, Value
from gpuplatform.tenancy import authentication
from gpuplatform.tenancy.models import Tenant
from tests.api.access.matrix import CANARY, NAME, OF_TENANTS, Route, rows_of, send
from tests.factories.people import api_of

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.usefixtures("cluster", "broker", "catalogue", "objects"),
]

OF_TENANT: Final = {
    *("tenant", "tenant_id", "tenant__name", "tenant__in", "tenant_id__in"),
    *("namespace", "namespace__in", "object_namespace"),
}
"""The conditions that restrict rows to the ones of a tenant."""

EVERY: Final = "every filter"

_filter: Final[Callable[..., Any]] = vars(QuerySet)["_filter_or_exclude"]
_once: Final[Callable[..., Any]] = vars(CompiledQuery)["_once"]


@contextmanager
def without(place: str | None, found: set[str]) -> Iterator[None]:
    """Leave out the conditions at one place of the code, and collect all places.

    All queries are compiled again, before and afterwards.
    """

    def filtered(
        rows: "QuerySet[Any]", negate: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> "QuerySet[Any]":
        if OF_TENANT & kwargs.keys() and not negate:
            here = _caller(sys._getframe(1))
            found.add(here)
            if place in {here, EVERY}:
                kwargs = {key: value for key, value in kwargs.items() if key not in OF_TENANT}
        kept: QuerySet[Any] = _filter(rows, negate, args, kwargs)
        return kept

    def compiled(query: CompiledQuery, values: Sequence[Value]) -> Any:
        query._compiled = None
        try:
            return _once(query, values)
        finally:
            query._compiled = None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(QuerySet, "_filter_or_exclude", filtered)
        patch.setattr(CompiledQuery, "_once", compiled)
        yield


def _caller(frame: FrameType | None) -> str:
    """Return the function and the line of the platform that called Django."""
    while frame is not None and "/django/" in frame.f_code.co_filename:
        frame = frame.f_back
    assert frame is not None
    return f"{frame.f_globals['__name__']}:{frame.f_code.co_qualname}:{frame.f_lineno}"


def leaks(route: Route, beta: Tenant) -> tuple[set[str], set[str]]:
    """Return the places without whose filter a response shows the object, and all places."""
    found: set[str] = set()
    leaking = set()
    with without(None, found):
        send(api_of(beta).client, route, NAME, "op-0")
    for number, place in enumerate([*sorted(found), EVERY]):
        client = api_of(beta).client
        with without(place, set()):
            reply = send(client, route, NAME, f"op-without-{number}")
        is_read = route.method == "GET" and bool(route.variables) and reply.status == 200
        if CANARY in reply.text or is_read:
            leaking.add(place)
    return leaking, found


@pytest.mark.parametrize("route", OF_TENANTS, ids=str)
def test_a_missing_filter_shows_and_changes_nothing_of_another_tenant(
    route: Route, alpha: Tenant, beta: Tenant
) -> None:
    before = rows_of(alpha)

    leaking, _ = leaks(route, beta)

    assert leaking == set()
    assert rows_of(alpha) == before


READS: Final = {
    *("gpu-units", "gpu-unit", "unit-groups", "unit-group", "functions", "function"),
    *("invocations", "invocation", "operations", "operation", "tokens", "members"),
}


@pytest.mark.parametrize("name", sorted(READS))
def test_without_row_level_security_a_missing_filter_shows_another_tenant(
    name: str, beta: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the test above would not find if it removed nothing."""
    monkeypatch.setattr(authentication, "restrict_rows", lambda _: None)
    [route] = [one for one in OF_TENANTS if (one.name, one.method) == (name, "GET")]

    leaking, found = leaks(route, beta)

    assert leaking
    assert leaking <= {*found, EVERY}
