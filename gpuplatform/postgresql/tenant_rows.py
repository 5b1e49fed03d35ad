"""Restricts the statements of a request to the rows of one tenant with row-level security.

The views filter by tenant. This is the second barrier: a statement without its filter returns no
row of another tenant. `CallerPermission` restricts each request to a route of tenants, so that no
view can omit it. From then on, each statement sets the role of tenants and the tenant in its own
round trip, for its transaction only. So a request holds no transaction open while it waits.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, cast

from django.db import connection
from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase

from gpuplatform.errors import InvariantBroken

TENANT_ROLE: Final = "gpuplatform_tenant"
"""The role of the database for the statements of tenants. Roles are shared by all databases of a
server; their privileges are not."""

TENANT_SETTING: Final = "app.tenant"
"""The setting with the id of the tenant, which the policies read."""

_SAVEPOINTS: Final = ("SAVEPOINT ", "RELEASE SAVEPOINT ", "ROLLBACK TO SAVEPOINT ")
"""Statements that read no rows. After an error, only these are allowed in a transaction."""

_OWN_ROLE: Final = "SET LOCAL ROLE NONE"

_tenant: ContextVar[Callable[[], int] | None] = ContextVar("tenant_rows", default=None)
_sees_all: ContextVar[bool] = ContextVar("tenant_sees_all", default=False)


def restrict_rows(tenant: Callable[[], int]) -> None:
    """Restrict the statements until the end of the request to the rows of a tenant.

    `tenant` returns its id. It is called before each statement, so that a request without
    statements needs no database.
    """
    _tenant.set(tenant)


@contextmanager
def all_rows() -> Iterator[None]:
    """Lift the restriction within the block or the decorated function.

    For what belongs to no tenant, such as the order of the capacity queue, or stock. The result
    must not contain anything of another tenant.
    """
    token = _sees_all.set(True)
    try:
        yield
    finally:
        _sees_all.reset(token)


@contextmanager
def rows_of_tenant(tenant: Callable[[], int] | None) -> Iterator[None]:
    """Restrict the statements within the block, if a tenant is given or `restrict_rows` is called.

    The restriction does not depend on what earlier statements set: a rollback to a savepoint
    would undo that.
    """
    token, lifted = _tenant.set(tenant), _sees_all.set(False)
    try:
        with connection.execute_wrapper(_execute_restricted):
            yield
    finally:
        is_restricted = _tenant.get() is not None
        _sees_all.reset(lifted)
        _tenant.reset(token)
        # The caller may have opened the transaction, and continues it with its own role.
        if is_restricted and connection.in_atomic_block and not connection.needs_rollback:
            connection.connection.execute(_OWN_ROLE)


class TenantRowsMiddleware:
    """Middleware within which `restrict_rows` restricts the statements of a request."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Return the response to a request. A stream remains restricted."""
        with rows_of_tenant(None):
            response = self._get_response(request)
            tenant = _tenant.get()
        if tenant is not None and isinstance(response, StreamingHttpResponse):
            # The application has no asynchronous views.
            chunks = cast("Iterable[bytes]", response.streaming_content)
            response.streaming_content = _restricted(tenant, chunks)
        return response


def _restricted(tenant: Callable[[], int], chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the chunks of a stream, each of which can be created by another thread."""
    remaining = iter(chunks)
    while True:
        with rows_of_tenant(tenant):
            chunk = next(remaining, None)
        if chunk is None:
            return
        yield chunk


def _execute_restricted(
    execute: Callable[..., Any],
    sql: str,
    params: Any,
    many: bool,  # noqa: FBT001 - the signature of Django
    context: dict[str, Any],
) -> Any:
    """Execute a statement together with the statements that restrict it, in one round trip.

    Outside a transaction, the database executes them in one transaction.
    """
    settings = _settings(in_transaction=context["connection"].in_atomic_block)
    if not settings or sql.startswith(_SAVEPOINTS):
        return execute(sql, params, many, context)
    cursor = context["cursor"]
    if many or getattr(cursor, "name", None):
        msg = "row-level security does not support this kind of cursor"
        raise InvariantBroken(msg)
    result = execute("; ".join((*settings, sql)), params, many, context)
    for _ in settings:
        cursor.nextset()
    return result


def _settings(*, in_transaction: bool) -> tuple[str, ...]:
    """Return the statements that precede a statement of the current request."""
    tenant = _tenant.get()
    if tenant is None:
        return ()
    if _sees_all.get():
        return (_OWN_ROLE,) if in_transaction else ()
    return f"SET LOCAL ROLE {TENANT_ROLE}", f"SET LOCAL {TENANT_SETTING} = '{tenant():d}'"
