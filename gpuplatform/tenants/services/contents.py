"""What belongs to a tenant: the objects that prevent its deletion, and the units to stop.

An app whose objects belong to a tenant adds them to `_CONTENTS`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Sum
from django.utils.crypto import salted_hmac

from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.tenancy.models import Tenant
from inventory.models import StockPool
from serverless.models import Function
from units.models import RELEASED, CapacityRequest, GpuUnit
from units.phases import RequestPhase, UnitRole
from units.services.names import UNIT_KIND, UnitOperation
from units.waiting import hint_matcher

TOKEN_DIGITS: Final = 16
"""Number of digits of the part of an operationID that cannot be guessed."""


def _units(tenant: Tenant) -> QuerySet[GpuUnit]:
    """Return the active units of a tenant, including units that `kubectl` created."""
    own = Q(tenant=tenant) | Q(tenant__isnull=True, namespace=tenant.namespace)
    return GpuUnit.objects.filter(own, role=UnitRole.ACTIVE, deleted_at__isnull=True)


_CONTENTS: Final[Mapping[str, tuple[str, Callable[[Tenant], QuerySet[Any]]]]] = {
    "units": ("GPU unit", _units),
    "functions": (
        "function",
        lambda tenant: Function.objects.filter(tenant=tenant, deleted_at__isnull=True),
    ),
    "stockPools": (
        "stock pool",
        lambda tenant: StockPool.objects.filter(
            namespace=tenant.namespace, deleted_at__isnull=True
        ),
    ),
    "openOperations": (
        "open operation",
        lambda tenant: Operation.objects.filter(tenant=tenant, phase__in=OPEN_PHASES),
    ),
}
"""The kinds of objects of a tenant: their noun, and their rows."""


def tenant_contents(tenant: Tenant, *, without: int = 0) -> dict[str, int]:
    """Return the numbers of objects that prevent the deletion of a tenant, by kind.

    `without` is the id of an operation that does not count.
    """
    numbers = {}
    for kind, (_, rows) in _CONTENTS.items():
        found = rows(tenant)
        numbers[kind] = (found.exclude(pk=without) if found.model is Operation else found).count()
    return numbers


def contents_text(numbers: Mapping[str, int]) -> str:
    """Return the numbers with their nouns, such as "2 GPU units, 1 function"."""
    nouns = ((number, _CONTENTS[kind][0]) for kind, number in numbers.items() if number)
    return ", ".join(f"{number} {noun}{'' if number == 1 else 's'}" for number, noun in nouns)


@dataclass(frozen=True, slots=True)
class Running:
    """The units of a tenant that hold GPUs, and its requests in the capacity queue."""

    units: int
    gpus: int
    waiting: int


def running_units(tenant: Tenant) -> Running:
    """Return the numbers of units that a suspension stops and of requests that wait."""
    rows = _units(tenant).exclude(RELEASED)
    waiting = CapacityRequest.objects.filter(tenant=tenant, phase=RequestPhase.OPEN)
    open_units = waiting.values("unit")
    found = rows.exclude(pk__in=open_units).aggregate(
        units=Count("pk"), gpus=Sum("gpu", default=0)
    )
    return Running(found["units"], found["gpus"], waiting.count())


def hint_matcher_of(tenant: Tenant) -> None:
    """Run the matcher of each GPU spec for which requests of a tenant are open."""
    waiting = CapacityRequest.objects.filter(tenant=tenant, phase=RequestPhase.OPEN)
    for spec_name in waiting.order_by("spec_name").values_list("spec_name", flat=True).distinct():
        hint_matcher(spec_name)


def units_to_stop(tenant: Tenant, suspension: Operation) -> list[GpuUnit]:
    """Return the units for which a suspension has not requested a stop yet, oldest first.

    These are the units that hold GPUs or will hold them. A unit whose creation or start waits in
    the capacity queue is not stopped: its request keeps its place and is not eligible.
    """
    is_starting = Exists(
        _open(UnitOperation.START).exclude(capacity_request__phase=RequestPhase.OPEN)
    )
    is_stopping = Exists(_open(UnitOperation.STOP))
    is_created = ~Q(uid="")
    rows = _stoppable(tenant).filter(
        (Q(uid="", group_name="") & ~_is_waiting())
        | (is_created & Q(is_suspended=False) & ~is_stopping)
        | (is_created & is_starting)
    )
    units = list(rows.order_by("pk"))
    names = {unit.pk: stop_operation_id(suspension, unit) for unit in units}
    known = _known(tenant, names.values())
    return [unit for unit in units if names[unit.pk] not in known]


def has_members_to_create(tenant: Tenant) -> bool:
    """Return whether the operation of a group is about to create units of a tenant.

    The stop of such a unit is not ordered after the operation of the group, so that it is only
    requested when the unit exists.
    """
    return _stoppable(tenant).filter(~_is_waiting(), uid="").exclude(group_name="").exists()


def _stoppable(tenant: Tenant) -> QuerySet[GpuUnit]:
    return _units(tenant).filter(
        namespace=tenant.namespace, deletion_requested_at__isnull=True, is_ended=False
    )


def _is_waiting() -> Exists:
    """Return the condition that the creation of the outer unit waits for stock."""
    waiting = CapacityRequest.objects.filter(phase=RequestPhase.OPEN)
    return Exists(waiting.filter(operation=OuterRef("operation")))


def _open(kind: UnitOperation) -> QuerySet[Operation]:
    """Return the open operations of a kind on the outer unit."""
    return Operation.objects.filter(
        object_kind=UNIT_KIND,
        object_namespace=OuterRef("namespace"),
        object_name=OuterRef("name"),
        kind=kind,
        phase__in=OPEN_PHASES,
    )


def stop_operation_id(suspension: Operation, unit: GpuUnit) -> str:
    """Return the operationID of the stop of a unit, which the owner cannot guess and use first."""
    place = f"{suspension.pk}-{unit.pk}"
    token = salted_hmac("tenants.suspend", place, algorithm="sha256").hexdigest()[:TOKEN_DIGITS]
    return f"suspend-{place}-{token}"


def _known(tenant: Tenant, operation_ids: Iterable[str]) -> set[str]:
    rows = Operation.objects.filter(tenant=tenant, operation_id__in=list(operation_ids))
    return set(rows.values_list("operation_id", flat=True))
