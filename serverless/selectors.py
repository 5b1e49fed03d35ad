"""Queries for functions, their workers, and invocations."""

from collections import Counter
from collections.abc import Collection

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Now

from gpuplatform.errors import NotFound
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.quota import UsageQuery, usage_query
from gpuplatform.tenancy.resources import Resource
from serverless.core.workers import function_of
from serverless.models import OPEN, WEBHOOK_OUTBOX, Function, Invocation
from serverless.queue.names import unit_prefix
from serverless.webhook_phases import WebhookState
from units.models import GpuUnit, UnitHistory
from units.phases import UnitPhase, UnitRole
from units.selectors import units_live


def functions_live() -> QuerySet[Function]:
    """Return the functions that are not deleted, newest first."""
    live = Function.objects.filter(deleted_at__isnull=True)
    return live.select_related("tenant", "operation").order_by("-id")


def functions_of(tenant: Tenant) -> QuerySet[Function]:
    """Return the tenant's functions, newest first."""
    return functions_live().filter(tenant=tenant)


def functions_used(tenants: Collection[int]) -> UsageQuery:
    """Return the query for the number of functions, and of those that are being deleted."""
    rows = Function.objects.filter(tenant__in=tenants, deleted_at__isnull=True)
    is_ending = Q(deletion_requested_at__isnull=False)
    return usage_query(rows, Resource.FUNCTIONS, releasing=is_ending)


def serverless_used(tenants: Collection[int]) -> list[UsageQuery]:
    """Return the queries for the use of functions and open invocations."""
    invocations = Invocation.objects.filter(OPEN, tenant__in=tenants)
    return [functions_used(tenants), usage_query(invocations, Resource.OPEN_INVOCATIONS)]


def function_named(rows: QuerySet[Function], request_id: str) -> Function:
    """Return the function with this name.

    Raises:
        NotFound: If the rows do not contain the function.
    """
    found = rows.filter(request_id=request_id).first()
    if found is None:
        msg = f"The function '{request_id}' does not exist."
        raise NotFound(msg)
    return found


def with_oldest(rows: QuerySet[Function]) -> QuerySet[Function]:
    """Annotate the rows with `oldest_open_at`: the time of the oldest open invocation."""
    oldest = Invocation.objects.filter(OPEN, function=OuterRef("pk")).order_by("id")
    return rows.annotate(oldest_open_at=Subquery(oldest.values("accepted_at")[:1]))


def current_backlog(row: Function) -> int:
    """Return the number of open invocations in a row of `with_oldest`.

    The column `backlog` is from the last observation. The result is corrected with the current
    `oldest_open_at`, so that the two values do not contradict each other.
    """
    has_open = getattr(row, "oldest_open_at", None) is not None
    return max(row.backlog, 1) if has_open else 0


def invocations() -> QuerySet[Invocation]:
    """Return the invocations without payloads, result bodies and specs, newest first."""
    rows = Invocation.objects.select_related("tenant", "function")
    return rows.defer("payload", "result_body", "function__spec").order_by("-id")


def invocation_with(rows: QuerySet[Invocation], tenant: Tenant, invocation_id: str) -> Invocation:
    """Return the invocation of the tenant with this invocationID.

    Raises:
        NotFound: If the rows do not contain the invocation.
    """
    rows = rows.select_related("tenant", "function")
    found = rows.filter(tenant=tenant, invocation_id=invocation_id).first()
    if found is None:
        msg = f"The invocation '{invocation_id}' does not exist."
        raise NotFound(msg)
    return found


def open_invocations(function: Function) -> QuerySet[Invocation]:
    """Return the open invocations of the function, oldest first."""
    return Invocation.objects.filter(OPEN, function=function).order_by("id")


def webhooks_due() -> QuerySet[Invocation]:
    """Return the ended invocations whose webhook has to be sent now."""
    unclaimed = Q(webhook_after__isnull=True) | Q(webhook_after__lte=Now())
    return Invocation.objects.filter(WEBHOOK_OUTBOX, unclaimed)


def webhooks_undelivered() -> QuerySet[Invocation]:
    """Return the ended invocations whose webhook is not delivered yet, or failed."""
    return Invocation.objects.filter(WEBHOOK_OUTBOX | Q(webhook_state=WebhookState.FAILED))


def workers_of(function: Function) -> QuerySet[GpuUnit]:
    """Return the GPU units that are workers of the function, newest first."""
    return all_workers().filter(
        tenant_id=function.tenant_id, name__startswith=unit_prefix(function.pk)
    )


def failed_workers_of(function: Function) -> QuerySet[GpuUnit]:
    """Return the deleted workers of the function that had failed, newest first.

    They are annotated with `failed_because`: the message of the failure in the unit's history.
    """
    failure = UnitHistory.objects.filter(unit=OuterRef("pk"), phase=UnitPhase.FAILED).order_by(
        "-id"
    )
    rows = GpuUnit.objects.filter(
        role=UnitRole.ACTIVE,
        tenant_id=function.tenant_id,
        name__startswith=unit_prefix(function.pk),
        phase=UnitPhase.TERMINATING,
        deleted_at__isnull=False,
    )
    failed = rows.annotate(failed_because=Subquery(failure.values("message")[:1]))
    return failed.filter(failed_because__isnull=False).order_by("-id")


def all_workers() -> QuerySet[GpuUnit]:
    """Return the GPU units that are workers, which have a block `serverless` in their spec."""
    return units_live(UnitRole.ACTIVE).filter(spec__has_key="serverless")


def workers_of_all(functions: Collection[Function]) -> list[GpuUnit]:
    """Return the GPU units that are workers of these functions, in one query."""
    wanted = {(function.tenant_id, function.pk) for function in functions}
    units = all_workers().filter(tenant_id__in={tenant for tenant, _ in wanted})
    return [unit for unit in units if (unit.tenant_id, function_of(unit.name)) in wanted]


def open_states(functions: Collection[Function]) -> Counter[str]:
    """Return the number of open invocations of these functions, grouped by state."""
    rows = Invocation.objects.filter(OPEN, function__in=functions)
    groups = rows.order_by().values_list("state").annotate(number=Count("pk"))
    return Counter(dict(groups))
