"""Reading functions and invocations."""

from collections import Counter
from collections.abc import Collection

from django.db.models import Count, OuterRef, QuerySet, Subquery

from gpuplatform.errors import NotFound
from gpuplatform.tenancy.models import Tenant
from serverless.core.workers import function_of
from serverless.models import OPEN, Function, Invocation
from serverless.queue.names import unit_prefix
from units.models import GpuUnit, UnitHistory
from units.phases import UnitPhase, UnitRole
from units.selectors import units_live


def functions_live() -> QuerySet[Function]:
    """Return functions that are there or about to be, newest first."""
    live = Function.objects.filter(deleted_at__isnull=True)
    return live.select_related("tenant", "operation").order_by("-id")


def function_get(tenant: Tenant, request_id: str) -> Function:
    """Return one function of the tenant.

    Raises:
        NotFound: there is none of that name.
    """
    found = functions_live().filter(tenant=tenant, request_id=request_id).first()
    if found is None:
        msg = f"There is no function '{request_id}'."
        raise NotFound(msg)
    return found


def functions_seen(tenant: Tenant) -> QuerySet[Function]:
    """Return the tenant's functions with `oldest_open_at`, newest first."""
    return with_oldest(functions_live().filter(tenant=tenant))


def with_oldest(rows: QuerySet[Function]) -> QuerySet[Function]:
    """Return the rows with `oldest_open_at`: when the oldest open invocation was accepted."""
    oldest = Invocation.objects.filter(OPEN, function=OuterRef("pk")).order_by("id")
    return rows.annotate(oldest_open_at=Subquery(oldest.values("accepted_at")[:1]))


def function_seen(tenant: Tenant, request_id: str) -> Function:
    """Return one function of the tenant as `functions_seen` does.

    Raises:
        NotFound: there is none of that name.
    """
    found = functions_seen(tenant).filter(request_id=request_id).first()
    if found is None:
        msg = f"There is no function '{request_id}'."
        raise NotFound(msg)
    return found


def invocations() -> QuerySet[Invocation]:
    """Return invocations without what was sent and answered, newest first."""
    rows = Invocation.objects.select_related("tenant", "function")
    return rows.defer("payload", "result_body").order_by("-id")


def invocation_get(tenant: Tenant, invocation_id: str) -> Invocation:
    """Return one invocation of the tenant, whole.

    Raises:
        NotFound: there is none of that id.
    """
    rows = Invocation.objects.select_related("tenant", "function")
    found = rows.filter(tenant=tenant, invocation_id=invocation_id).first()
    if found is None:
        msg = f"There is no invocation '{invocation_id}'."
        raise NotFound(msg)
    return found


def open_invocations(function: Function) -> QuerySet[Invocation]:
    """Return the invocations of the function that have not ended, oldest first."""
    return Invocation.objects.filter(OPEN, function=function).order_by("id")


def workers_of(function: Function) -> QuerySet[GpuUnit]:
    """Return the GPU units that are workers of the function, newest first."""
    return all_workers().filter(
        tenant_id=function.tenant_id, name__startswith=unit_prefix(function.pk)
    )


def failed_workers_of(function: Function) -> QuerySet[GpuUnit]:
    """Return the GPU units that were workers of the function and failed, newest first.

    `failed_because` is what the cluster said, which a deleted row itself does not keep.
    """
    said = UnitHistory.objects.filter(unit=OuterRef("pk"), phase=UnitPhase.FAILED).order_by("-id")
    rows = GpuUnit.objects.filter(
        role=UnitRole.ACTIVE,
        tenant_id=function.tenant_id,
        name__startswith=unit_prefix(function.pk),
        phase=UnitPhase.TERMINATING,
        deleted_at__isnull=False,
    )
    failed = rows.annotate(failed_because=Subquery(said.values("message")[:1]))
    return failed.filter(failed_because__isnull=False).order_by("-id")


def all_workers() -> QuerySet[GpuUnit]:
    """Return the GPU units that are workers of functions; a name alone makes none."""
    return units_live(UnitRole.ACTIVE).filter(spec__has_key="serverless")


def workers_of_all(functions: Collection[Function]) -> list[GpuUnit]:
    """Return the GPU units that are workers of these functions, in one query."""
    wanted = {(function.tenant_id, function.pk) for function in functions}
    units = all_workers().filter(tenant_id__in={tenant for tenant, _ in wanted})
    return [unit for unit in units if (unit.tenant_id, function_of(unit.name)) in wanted]


def open_states(functions: Collection[Function]) -> Counter[str]:
    """Return how many invocations of these functions wait, and how many run."""
    rows = Invocation.objects.filter(OPEN, function__in=functions)
    groups = rows.order_by().values_list("state").annotate(number=Count("pk"))
    return Counter(dict(groups))
