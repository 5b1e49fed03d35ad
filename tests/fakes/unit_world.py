"""GPU units in one process: services, drivers, planners, mirror, on the fake cluster.

It acts as workers, sweeps and the watch, step by step, in one thread; a step can be killed.
"""

import itertools
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from django.db.models import F
from django.db.models.functions import Now
from typing_extensions import override

from gpuplatform.kube.kinds import (
    DEPLOYMENT,
    FIELD_MANAGER,
    GPU_UNIT,
    JOB,
    POD,
    Manifest,
    ResourceKind,
)
from gpuplatform.operations import driver as operations
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import OPEN_PHASES
from gpuplatform.operations.services import Accepted
from gpuplatform.reconciliation import driver
from gpuplatform.reconciliation.models import ClusterState
from gpuplatform.tenancy.selectors import tenant_by_name
from inventory.requests.drains import NodeDrainBody
from inventory.selectors import drain_ids
from inventory.services.drains import node_drain
from tests.factories.unit_rows import catalogued, catalogued_for
from tests.fakes.cluster import FakeCluster, Fault, Killed
from tests.fakes.jobs import end_program
from units.comparison import delete_leftovers
from units.core.child import outcome
from units.drains import drain_advance
from units.mirror import UNIT_MIRROR
from units.models import GpuUnit
from units.phases import STOCK_NAMESPACE
from units.reconcile import UNITS
from units.requests import GpuUnitCreate, GpuUnitUpdate, StockSeed, UnitGroupCreate
from units.services.groups import group_create, group_request_deletion
from units.services.matcher import match
from units.services.stock import stock_remove, stock_seed
from units.services.units import (
    unit_create,
    unit_request_deletion,
    unit_start,
    unit_stop,
    unit_update,
)
from units.waiting import queued_specs

NAMESPACE = "runtime-instance"


@dataclass
class ManagedCluster(FakeCluster):
    """A cluster with managedFields, as on an API server."""

    on_done: Callable[[], None] | None = None
    """Called after the effect of a write, before its response."""

    @override
    def create(self, kind: ResourceKind, manifest: Manifest) -> Manifest:
        written = [{"manager": FIELD_MANAGER, "operation": "Update"}]
        made = deepcopy(manifest)
        made["metadata"]["managedFields"] = written
        return super().create(kind, made)

    @override
    def _end(self, fault: Fault | None, made: Manifest) -> Manifest:
        if self.on_done is not None:
            self.on_done()
        return super()._end(fault, made)


@dataclass
class UnitWorld:
    """One platform and one cluster."""

    cluster: ManagedCluster
    numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    disturbed: Callable[[], AbstractContextManager[object]] = nullcontext
    """The context of each step of `work`; it can kill the step."""
    kills: int = 0
    """Number of steps that were killed."""

    def seed(self, replicas: int, spec_name: str = "g1.1", **fields: Any) -> Operation:
        """Seed stock and wait until it is ready."""
        operation = self.ask_seed(replicas, spec_name, **fields).operation
        self.work()
        return state(operation)

    def ask_seed(self, replicas: int, spec_name: str = "g1.1", **fields: Any) -> Accepted:
        """Request the seeding of stock."""
        body = {"operationID": self._id("seed"), "specName": spec_name, "replicas": replicas}
        asked = StockSeed.parse({"gpu": 1, **body, **fields})
        catalogued_for(asked.payload())
        return stock_seed(tenant=tenant_by_name(), body=asked)

    def remove(self, number: int, spec_name: str = "g1.1") -> Operation:
        """Request the removal of stock."""
        accepted = stock_remove(
            tenant=tenant_by_name(),
            operation_id=self._id("remove"),
            spec_name=spec_name,
            number=number,
        )
        return accepted.operation

    def create(self, name: str, **fields: Any) -> Operation:
        """Request a unit."""
        return self.ask_create(name, **fields).operation

    def ask_create(self, name: str, **fields: Any) -> Accepted:
        """Request a unit; the result contains whether it is a replay."""
        body = {
            "operationID": self._id("create"),
            "name": name,
            "specName": "g1.1",
            "image": "example.com/a:1",
        }
        asked = GpuUnitCreate.parse({**body, **fields})
        catalogued(asked.spec_name)
        return unit_create(tenant=tenant_by_name(), body=asked)

    def update(self, name: str, etag: str | None = None, **fields: Any) -> Operation:
        """Request a change."""
        asked = GpuUnitUpdate.parse({"operationID": self._id("update"), **fields})
        return unit_update(tenant=tenant_by_name(), name=name, body=asked, etag=etag).operation

    def stop(self, name: str) -> Operation:
        """Request a stop."""
        return unit_stop(
            tenant=tenant_by_name(), name=name, operation_id=self._id("stop")
        ).operation

    def start(self, name: str) -> Operation:
        """Request a start."""
        return unit_start(
            tenant=tenant_by_name(), name=name, operation_id=self._id("start")
        ).operation

    def delete(self, name: str) -> Operation:
        """Request a deletion."""
        return unit_request_deletion(
            tenant=tenant_by_name(), name=name, operation_id=self._id("delete")
        ).operation

    def create_group(self, name: str, size: int, **fields: Any) -> Operation:
        """Request a group of units."""
        body = {
            "operationID": self._id("create-group"),
            "name": name,
            "size": size,
            "unit": {"specName": "g1.1", "image": "example.com/a:1"},
        }
        catalogued("g1.1")
        asked = UnitGroupCreate.parse({**body, **fields})
        return group_create(tenant=tenant_by_name(), body=asked).operation

    def delete_group(self, name: str) -> Operation:
        """Request the deletion of a group."""
        return group_request_deletion(
            tenant=tenant_by_name(), name=name, operation_id=self._id("delete-group")
        ).operation

    def run(self, operation: Operation) -> Operation:
        """Run the operation once, even if it is not due."""
        release(operation)
        operations.run(operation.pk)
        return state(operation)

    def finish(self, operation: Operation, runs: int = 6) -> Operation:
        """Run the operation until it has ended."""
        for _ in range(runs):
            if self.run(operation).phase not in OPEN_PHASES:
                break
        return state(operation)

    def work(self, rounds: int = 8) -> None:
        """Run all processes until a round changes nothing; a killed process is replaced."""
        for _ in range(rounds):
            before = self.cluster.version_number, self.kills
            Operation.objects.filter(phase__in=OPEN_PHASES).update(due_at=Now(), **_FREED)
            for number in (
                Operation.objects.filter(phase__in=OPEN_PHASES)
                .order_by("id")
                .values_list("id", flat=True)
            ):
                self._mortal(partial(operations.run, number))
            self._mortal(self.match)
            self.reconcile()
            self.cluster.settle()
            self._mortal(self.copy)
            self._mortal(lambda: delete_leftovers(self.cluster))
            self._mortal(self.advance_drains)
            if before == (self.cluster.version_number, self.kills) and _nothing_open():
                return

    def reconcile(self) -> None:
        """Reconcile everything once."""
        rows = GpuUnit.objects.filter(deleted_at__isnull=True).exclude(uid="")
        rows.update(due_at=Now(), due_seq=F("due_seq") + 1, **_FREED)
        for row in rows.order_by("id"):
            self._mortal(partial(driver.run, UNITS, row.pk))

    def match(self) -> None:
        """Run the matcher for all GPU specs with open requests."""
        for spec_name in queued_specs():
            match(spec_name)

    def ask_drain(self, node: str, **fields: Any) -> Accepted:
        """Request the drain of a node."""
        body = NodeDrainBody.parse({"operationID": self._id("drain"), **fields})
        return node_drain(tenant=tenant_by_name(), name=node, body=body)

    def advance_drains(self) -> None:
        """Take the next steps of all drains."""
        for number in drain_ids():
            drain_advance(self.cluster, number)

    def copy(self) -> None:
        """Copy the state of all resources to the mirror."""
        UNIT_MIRROR.listed(self.cluster.list(GPU_UNIT))

    def resource(self, name: str, namespace: str = NAMESPACE) -> Manifest | None:
        """Return the resource of a unit, without a call."""
        found = self.cluster._objects.get((GPU_UNIT.plural, namespace, name))
        return deepcopy(found)

    def deployment(self, unit: str, namespace: str = NAMESPACE) -> Manifest | None:
        """Return the Deployment of a unit, without a call."""
        found = self.cluster._objects.get((DEPLOYMENT.plural, namespace, f"unit-{unit}"))
        return deepcopy(found)

    def job(self, unit: str) -> Manifest | None:
        """Return the Job of an active unit, without a call."""
        found = self.cluster._objects.get((JOB.plural, NAMESPACE, f"unit-{unit}"))
        return deepcopy(found)

    def has_ended(self, unit: str) -> bool:
        """Return whether the Job of a unit has finished."""
        job = self.job(unit)
        return job is not None and outcome(job) is not None

    def end(self, unit: str, code: int = 0, log: str = "") -> None:
        """End the program of a unit with an exit code."""
        job = self.job(unit)
        assert job is not None
        end_program(self.cluster, job, code, log)

    def pods(self, unit: str) -> int:
        """Return the number of pods of an active unit."""
        name = f"unit-{unit}-"
        return sum(
            plural == POD.plural and place == NAMESPACE and pod.startswith(name)
            for plural, place, pod in self.cluster._objects
        )

    def by_hand(self, name: str, *, annotations: Manifest | None = None, **spec: Any) -> Manifest:
        """Create a unit as with kubectl."""
        metadata = {"name": name, "namespace": NAMESPACE, "annotations": annotations or {}}
        body = {"specName": "g1.1", "image": "example.com/a:1", **spec}
        return self.cluster.put(
            GPU_UNIT,
            {
                "apiVersion": GPU_UNIT.api_version,
                "kind": GPU_UNIT.kind,
                "metadata": metadata,
                "spec": body,
            },
        )

    def drop_stock(self, row: GpuUnit) -> None:
        """Delete a stock unit as with kubectl."""
        self.cluster.remove(GPU_UNIT, row.name, namespace=STOCK_NAMESPACE)

    def _mortal(self, step: Callable[[], object]) -> None:
        try:
            with self.disturbed():
                step()
        except Killed:
            self.kills += 1

    def _id(self, verb: str) -> str:
        return f"{verb}-{next(self.numbers)}"


_FREED: dict[str, Any] = {"lease_token": None, "lease_expires_at": None}


def _nothing_open() -> bool:
    return not Operation.objects.filter(phase__in=OPEN_PHASES).exists()


def state(operation: Operation) -> Operation:
    """Return the current operation."""
    return Operation.objects.get(pk=operation.pk)


def release(operation: Operation) -> None:
    """Make the operation due and release its lease; open the gate."""
    rows = Operation.objects.filter(pk=operation.pk, phase__in=OPEN_PHASES)
    rows.update(due_at=Now(), lease_expires_at=Now() - timedelta(seconds=1))
    ClusterState.objects.update(failures=0, closed_until=None)


def stock_rows() -> list[GpuUnit]:
    """Return the rows of all stock, oldest first."""
    return list(GpuUnit.objects.filter(role="stock").order_by("id"))


def unit_row(name: str) -> GpuUnit:
    """Return the newest row of an active unit."""
    return GpuUnit.objects.filter(role="active", name=name).order_by("-id")[0]


def new_uid() -> str:
    """Return an unused UID."""
    return str(uuid.uuid4())
