"""A simulated day with the matcher and its rows on PostgreSQL, beside the pure order.

The simulation of `queue_day` produces the requests and the ends of units. Instead of moving the
clock of the database, it makes all rows older by the time that passes. The pure order is simulated
twice: as the matcher applies it, for which only the GPUs that tenants hold count, and with the
decayed usage, which the order also supports.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from django.db.models import F
from django.db.models.functions import Now
from typing_extensions import override

from gpuplatform.operations.hashing import HASH_VERSION
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OperationPhase
from inventory.models import GpuSpec
from tests.benchmarks.queue import SPEC
from tests.benchmarks.queue_day import GPUS, NAMES, Day, Demand, quantile
from tests.benchmarks.queue_rows import clear, stock, tenant
from tests.factories.unit_rows import stock_row
from units.models import CapacityRequest, GpuUnit
from units.phases import RequestPhase, UnitPhase, UnitRole
from units.services import matcher
from units.services.queue import requests_close

SWEEP_SECONDS: Final = 60.0
TOLERANCE_MINUTES: Final = 15.0
"""The allowed difference of the longest waits: the timers of the simulations are not the same."""


@dataclass
class MatcherDay(Day):
    """A day whose requests are rows, to which the matcher grants rows of stock."""

    requests: dict[int, int] = field(default_factory=dict)
    """The numbers of the waiting requests in the simulation, by the id of their row."""
    units: dict[tuple[int, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    """The ids of the running units by tenant and size."""

    @override
    def run(self) -> "MatcherDay":
        clear()
        stock(GPUS)
        self._at(0.0, "sweep")
        super().run()
        return self

    @override
    def _pass(self, seconds: float) -> None:
        super()._pass(seconds)
        time = timedelta(seconds=seconds)
        CapacityRequest.objects.filter(phase=RequestPhase.OPEN).update(
            requested_at=F("requested_at") - time, hold_begun_at=F("hold_begun_at") - time
        )
        GpuSpec.objects.update(hold_pause_until=F("hold_pause_until") - time)

    @override
    def _on_ask(self, demand: Demand) -> None:
        super()._on_ask(demand)
        number = max(self.queue)
        request = self.queue[number]
        names = {"object_kind": "GPUUnit", "object_name": f"unit-{number}"}
        owner = tenant(request.tenant)
        operation = Operation.objects.create(
            tenant=owner,
            operation_id=f"create-{number}",
            kind="unit.create",
            payload={"specName": SPEC, "image": "example.com/a:1"},
            object_namespace=owner.namespace,
            hash_version=HASH_VERSION,
            due_at=Now(),
            **names,
        )
        unit = GpuUnit.objects.create(
            role=UnitRole.ACTIVE,
            tenant=owner,
            namespace=owner.namespace,
            name=f"unit-{number}",
            spec_name=SPEC,
        )
        Operation.objects.filter(pk=operation.pk).update(object_row=unit.pk)
        row = CapacityRequest.objects.create(
            operation=operation,
            tenant=owner,
            unit=unit,
            spec_name=SPEC,
            count=request.size,
            expires_at=Now() + timedelta(days=7),
        )
        self.requests[row.pk] = number

    @override
    def _on_cancel(self, number: int, demand: Demand) -> None:
        if number in self.queue:
            rows = [pk for pk, known in self.requests.items() if known == number]
            requests_close(CapacityRequest.objects.filter(pk__in=rows))
            del self.requests[rows[0]]
        super()._on_cancel(number, demand)

    @override
    def _on_end(self, tenant: int, count: int) -> None:
        super()._on_end(tenant, count)
        unit = self.units[tenant, count].pop()
        GpuUnit.objects.filter(pk=unit).update(deleted_at=Now(), phase=UnitPhase.TERMINATING)

    @override
    def _on_ready(self, count: int) -> None:
        super()._on_ready(count)
        for _ in range(count):
            stock_row(spec_name=SPEC)

    def _on_sweep(self) -> None:
        self._at(self.now + SWEEP_SECONDS, "sweep")

    @override
    def _match(self) -> None:
        if not matcher.match(SPEC):
            return
        granted = CapacityRequest.objects.filter(phase=RequestPhase.GRANTED).order_by("id")
        for row in granted.values("pk", "operation_id", "unit_id", "count"):
            self._run(row)

    def _run(self, row: Mapping[str, Any]) -> None:
        """Record the end of a granted operation: the unit runs."""
        request = self.queue[self.requests.pop(row["pk"])]
        claimed = GpuUnit.objects.filter(claimed_by=row["operation_id"])
        uid = f"unit-{row['unit_id']}"
        claimed.update(claimed_by=None, consumed_by=uid, consumed_at=Now(), deleted_at=Now())
        GpuUnit.objects.filter(pk=row["unit_id"]).update(
            gpu=row["count"], phase=UnitPhase.READY, uid=uid
        )
        ended = {"phase": OperationPhase.SUCCEEDED, "ended_at": Now(), "due_at": None}
        Operation.objects.filter(pk=row["operation_id"]).update(**ended)
        CapacityRequest.objects.filter(pk=row["pk"]).update(phase=RequestPhase.CLOSED)
        self.units[request.tenant, request.size].append(row["unit_id"])
        self._grant(request)


def compare(seed: int = 0) -> Iterator[str]:
    """Yield the lines of the table of waiting times of one day."""
    real = MatcherDay(seed).run()
    pure, usage = Day(seed, counts_usage=False).run(), Day(seed).run()
    yield f"Minutes waited on one day of {GPUS} GPUs: p50 / p95 / longest (open at the end)"
    yield f"{'tenant':<10} {'matcher':>24} {'pure order':>24} {'with usage':>24}"
    starved = []
    for name in NAMES[:-1]:
        cells = [_cell(day, name) for day in (real, pure, usage)]
        yield f"{name:<10} {cells[0]:>24} {cells[1]:>24} {cells[2]:>24}"
        longest = pure.minutes(name)[-1] + TOLERANCE_MINUTES
        if not real.waits[name] or real.minutes(name)[-1] > longest:
            starved.append(name)
    yield "GPUs in use: " + ", ".join(f"{day.use:.0%}" for day in (real, pure, usage))
    yield f"Tenants that wait longer than by the pure order: {', '.join(starved) or 'none'}"


def _cell(day: Day, name: str) -> str:
    minutes = day.minutes(name)
    parts = " / ".join(f"{quantile(minutes, part):.0f}" for part in (0.5, 0.95, 1.0))
    return f"{parts} ({len(day.unserved[name])})"
