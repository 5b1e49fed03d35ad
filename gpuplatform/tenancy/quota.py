"""Checks the limits of tenants in the transactions that use them.

The use of a resource is counted from its rows, never stored. A transaction that uses a limited
resource first inserts a row that refers to the tenant, then reads the limits, locks the tenant
`FOR NO KEY UPDATE`, and counts in a later statement. A change of limits locks the tenant `FOR
UPDATE`: it waits for the transactions that have inserted such a row, even of a tenant without
limits, and the later ones wait for it. A tenant without limits is not locked, and nothing is
counted for it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from django.db import connection
from django.db.models import Count, Q, QuerySet, Value

from gpuplatform.errors import FieldError, InvariantBroken, QuotaExceeded, QuotaShortage
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.phases import TenantPhase
from gpuplatform.tenancy.resources import Resource


class Usage(NamedTuple):
    """The use of a resource by a tenant."""

    used: int = 0
    releasing: int = 0
    """The part of `used` that is being released."""


@dataclass(frozen=True, slots=True)
class QuotaRequest:
    """What a transaction needs of a resource, in addition to what `count` returns."""

    resource: str
    requested: int
    count: Callable[[], Usage]


class UsageQuery(NamedTuple):
    """A query with the columns tenant, resource, `used` and `releasing`."""

    sql: str
    values: Sequence[Any]


UsageQueries: TypeAlias = Callable[[Collection[int]], Iterable[UsageQuery]]
"""Returns the queries for the use of resources by tenants, whose ids are not empty."""

_LOCK: Final = "SELECT phase FROM tenancy_tenant WHERE id = %s FOR NO KEY UPDATE"
_LIMITS: Final = (
    "SELECT resource, hard FROM tenancy_tenantlimit WHERE tenant_id = %s ORDER BY resource"
)
"""Part of each accepted request and of each grant. The compilation of querysets would take most of
their time."""

_USED: Final[dict[str, UsageQueries]] = {}
_CHANGED: Final[dict[str, Callable[[int], None]]] = {}


def register_usage(app: str, queries: UsageQueries) -> None:
    """Register the queries that count the resources of an app.

    Raises:
        InvariantBroken: If the app has registered another one.
    """
    if _USED.setdefault(app, queries) is not queries:
        msg = f"the use of the resources of {app} is registered twice"
        raise InvariantBroken(msg)


def on_limits_changed(app: str, call: Callable[[int], None]) -> None:
    """Register a function to call with the id of the tenant whenever its limits change."""
    _CHANGED[app] = call


def limits_changed(tenant: int) -> None:
    """Notify the apps that the limits of a tenant changed in the current transaction."""
    for call in _CHANGED.values():
        call(tenant)


def usage_of(tenants: Collection[int]) -> dict[int, dict[str, Usage]]:
    """Return the use of all resources by tenants, by the id of the tenant. Runs one query.

    Resources that a tenant does not use are absent.
    """
    found: dict[int, dict[str, Usage]] = {tenant: {} for tenant in tenants}
    queries = [one for queries in _USED.values() for one in queries(tenants)] if found else []
    if not queries:
        return found
    sql = " UNION ALL ".join(f"SELECT * FROM ({one.sql}) AS counted" for one in queries)  # noqa: S608 - constants and Django's
    with connection.cursor() as cursor:
        cursor.execute(sql, [value for one in queries for value in one.values])
        for tenant, resource, used, releasing in cursor.fetchall():
            if used:
                found[tenant][resource] = Usage(int(used), int(releasing))
    return found


def usage_query(
    rows: QuerySet[Any], resource: Resource, *, releasing: Q | None = None
) -> UsageQuery:
    """Return the query that counts rows by tenant, and those that match `releasing`."""
    is_releasing = Value(0) if releasing is None else Count("pk", filter=releasing)
    counts = (
        rows.order_by()
        .values("tenant_id")
        .annotate(resource=Value(resource.value), used=Count("pk"), releasing=is_releasing)
    )
    columns = counts.values_list("tenant_id", "resource", "used", "releasing")
    return UsageQuery(*columns.query.sql_with_params())


def usage_for(query: UsageQuery) -> Usage:
    """Return the use that a query for one tenant and one resource finds."""
    with connection.cursor() as cursor:
        cursor.execute(*query)
        row = cursor.fetchone()
    return Usage(*row[2:]) if row else Usage()


def limits_of(tenant: int) -> dict[str, int]:
    """Return the limits of a tenant by resource.

    In a transaction that uses resources, a row that refers to the tenant must be inserted before:
    from then on, no other transaction changes the limits.
    """
    with connection.cursor() as cursor:
        cursor.execute(_LIMITS, [tenant])
        return dict(cursor.fetchall())


def change_turn(tenant: int) -> str:
    """Return the key of the turn that a change of the tenant takes and its operations share."""
    return f"TenantChange/{tenant}"


def tenant_lock(tenant: int) -> TenantPhase:
    """Lock a tenant against other transactions that use its limited resources.

    Returns its phase, which cannot change until the transaction ends.
    """
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, [tenant])
        [phase] = cursor.fetchone()
    return TenantPhase(phase)


def quota_check(
    tenant: Tenant, limits: Mapping[str, int], requests: Iterable[QuotaRequest]
) -> None:
    """Check that a tenant may use more of some resources, and keep that until the commit.

    Args:
        tenant: The tenant, to which a row of this transaction refers.
        limits: Its limits, read after that row was inserted.
        requests: What the transaction needs. Resources without a limit are not counted.

    Raises:
        QuotaExceeded: If a limit does not allow it.
    """
    limited = [one for one in requests if one.resource in limits]
    if not limited:
        return
    tenant_lock(tenant.pk)
    shortages = [found for one in limited if (found := _shortage(one, limits[one.resource]))]
    if shortages:
        raise quota_exceeded(tenant, shortages)


def quota_exceeded(tenant: Tenant, shortages: Sequence[QuotaShortage]) -> QuotaExceeded:
    """Return the error for the limits that do not allow a request of a tenant."""
    details = [FieldError(one.resource, _text(one)) for one in shortages]
    error = QuotaExceeded(
        f"The tenant '{tenant}' has reached its limit of {details[0].field}: {details[0].message}."
        " Release resources, or ask an operator for a higher limit.",
        details=details,
    )
    error.quota = tuple(shortages)
    return error


def _text(shortage: QuotaShortage) -> str:
    return (
        f"{shortage.used} used, {shortage.releasing} being released, {shortage.allowed} allowed,"
        f" {shortage.requested} requested"
    )


def _shortage(request: QuotaRequest, allowed: int) -> QuotaShortage | None:
    usage = request.count()
    if usage.used + request.requested <= allowed:
        return None
    return QuotaShortage(request.resource, *usage, allowed, request.requested)
