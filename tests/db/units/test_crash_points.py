"""A process is killed before or after any write; the next process reaches the same end state.

The test enumerates the points: an undisturbed run counts its writes to the cluster and to the
database, before and after each; then each run is killed at one of them. By default a random point
of each scenario is tested; with CRASH_POINTS=all, all points.
"""

import itertools
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any
from unittest import mock

import pytest
from django.db import connection, transaction
from django.db.transaction import Atomic

from gpuplatform.kube.kinds import GPU_UNIT
from gpuplatform.operations.models import Operation
from gpuplatform.quotas.services import tenant_limits_put
from gpuplatform.reconciliation import epoch
from gpuplatform.tenancy.models import Tenant
from gpuplatform.tenancy.requests import TenantLimitsBody
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.usage.models import UsageInterval
from tests.factories.gpu_counts import held
from tests.factories.limits import limit
from tests.fakes.cluster import Killed
from tests.fakes.unit_world import UnitWorld
from units.models import GpuUnit

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(3600)]

POINTS = os.environ.get("CRASH_POINTS", "1")
FIRST_OF_THE_DISTURBED = 100


def running(world: UnitWorld) -> None:
    world.seed(2)
    world.create("a")
    world.work()


def stopped(world: UnitWorld) -> None:
    running(world)
    world.stop("a")
    world.work()


def vanished(world: UnitWorld) -> None:
    world.seed(2)
    world.create("a")
    world.drop_stock(GpuUnit.objects.order_by("id")[0])


def group_running(world: UnitWorld) -> None:
    world.seed(2)
    world.create_group("team", 2)
    world.work()


def group_vanished(world: UnitWorld) -> None:
    world.seed(3)
    world.create_group("team", 2)
    world.drop_stock(GpuUnit.objects.order_by("id")[0])


def group_waiting(world: UnitWorld) -> None:
    world.run(world.create_group("team", 2, wait={"maxSeconds": 3600}))


def at_the_limit(world: UnitWorld) -> None:
    world.seed(2)
    limit(gpus=1)
    world.create("a")
    world.work()
    world.create("b", wait={"maxSeconds": 3600})
    world.work()


def raise_limit(world: UnitWorld) -> None:
    body = TenantLimitsBody.parse({"operationID": "raise", "limits": {"gpus": 2}})
    tenant_limits_put(tenant=tenant_by_name(), body=body)


def within_a_limit(world: UnitWorld) -> None:
    world.seed(2)
    limit(gpus=1, units=1)


SCENARIOS: dict[str, tuple[Callable[[UnitWorld], object], Callable[[UnitWorld], object]]] = {
    "seed": (lambda world: None, lambda world: world.ask_seed(3)),
    "create": (lambda world: world.seed(2), lambda world: world.create("a")),
    "create whose stock vanished": (vanished, lambda world: None),
    "delete": (running, lambda world: world.delete("a")),
    "stop": (running, lambda world: world.stop("a")),
    "start": (stopped, lambda world: world.start("a")),
    "remove": (lambda world: world.seed(2), lambda world: world.remove(2)),
    "create of a group": (
        lambda world: world.seed(3),
        lambda world: world.create_group("team", 2),
    ),
    "create of a group whose stock vanished": (group_vanished, lambda world: None),
    "grant to a group": (group_waiting, lambda world: world.ask_seed(2)),
    "delete of a group": (group_running, lambda world: world.delete_group("team")),
    "delete of a waiting group": (group_waiting, lambda world: world.delete_group("team")),
    "create within a limit": (within_a_limit, lambda world: world.create("a")),
    "stop that releases quota": (at_the_limit, lambda world: world.stop("a")),
    "delete that releases quota": (at_the_limit, lambda world: world.delete("a")),
    "change of limits": (at_the_limit, raise_limit),
}


WRITES = ("INSERT", "UPDATE", "DELETE", "RELEASE")
READS = ("get", "list", "version")


class Points:
    """Counts the points at which a process can be killed; kills it at one of them.

    The points are before and after each write: reads between two writes do not matter.
    """

    def __init__(self, fatal: int = -1) -> None:
        self.seen = 0
        self.fatal = fatal

    def pass_one(self) -> None:
        self.seen += 1
        if self.seen == self.fatal:
            raise Killed

    @contextmanager
    def passed(self, world: UnitWorld) -> Iterator[None]:
        """Count the points during the block."""
        world.cluster.on_call = self.call
        world.cluster.on_done = self.pass_one
        try:
            with own_transactions(), connection.execute_wrapper(self.statement):
                yield
        finally:
            world.cluster.on_call = world.cluster.on_done = None

    def call(self, verb: str, _kind: object) -> None:
        if verb not in READS:
            self.pass_one()

    def statement(self, execute: Any, sql: str, *args: Any) -> Any:
        is_write = sql.startswith(WRITES)
        if is_write:
            self.pass_one()
        answer = execute(sql, *args)
        if is_write:
            self.pass_one()
        return answer


@contextmanager
def own_transactions() -> Iterator[None]:
    """Use a savepoint, which a kill rolls back, for each transaction."""
    depth, enter = len(connection.savepoint_ids), Atomic.__enter__

    def entered(block: Atomic) -> None:
        block.savepoint = block.savepoint or len(connection.savepoint_ids) == depth
        enter(block)

    with mock.patch.object(Atomic, "__enter__", entered):
        yield


@contextmanager
def undone(world: UnitWorld) -> Iterator[UnitWorld]:
    """Yield a copy of the world, and undo its changes afterwards."""
    objects, version = deepcopy(world.cluster._objects), world.cluster.version_number
    with transaction.atomic():
        yield UnitWorld(world.cluster, itertools.count(FIRST_OF_THE_DISTURBED))
        transaction.set_rollback(True)
    world.cluster._objects, world.cluster.version_number = objects, version


def end_of(
    world: UnitWorld, act: Callable[[UnitWorld], object], points: Points
) -> dict[str, object]:
    """Act and work with the points; then work undisturbed; return the end state."""
    with undone(world) as copy:
        copy.disturbed = lambda: points.passed(copy)
        try:
            with copy.disturbed():
                act(copy)
        except Killed:  # Without a response, the caller repeats the request.
            copy.numbers = itertools.count(FIRST_OF_THE_DISTURBED)
            act(copy)
        copy.work(12)
        return picture(copy)


def picture(world: UnitWorld) -> dict[str, object]:
    units = dict(GpuUnit.objects.filter(role="active").values_list("uid", "name"))
    return {
        "operations": list(
            Operation.objects.order_by("id").values_list("kind", "phase", "error_code")
        ),
        "rows": [
            (
                *(row.name, row.phase, row.claimed_by_id, row.gpus_seen),
                *(units.get(row.consumed_by), row.uid != ""),
            )
            for row in GpuUnit.objects.order_by("role", "name", "id")
        ],
        "usage": sorted(
            (row.unit_name, row.part, row.ended_at is None) for row in UsageInterval.objects.all()
        ),
        "counted": held(Tenant.objects.values_list("pk", flat=True)),
        "gone": sorted(
            GpuUnit.objects.filter(deleted_at__isnull=False).values_list("name", flat=True)
        ),
        "objects": {
            key: (found.get("spec") or {}).get(
                "replicas", (found.get("spec") or {}).get("suspend")
            )
            for key, found in world.cluster._objects.items()
        },
    }


def chosen(count: int) -> list[int]:
    every = range(1, count + 1)
    if POINTS == "all":
        return list(every)
    return sorted(random.sample(every, min(int(POINTS), count)))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_crash_at_any_point_changes_no_result(world: UnitWorld, scenario: str) -> None:
    prepare, act = SCENARIOS[scenario]
    assert epoch.matches()
    prepare(world)
    undisturbed = Points()
    expected = end_of(world, act, undisturbed)
    assert undisturbed.seen > 20, "the points are not counted"

    different = {
        point: {key: found for key, found in ended.items() if found != expected[key]}
        for point in chosen(undisturbed.seen)
        if (ended := end_of(world, act, Points(point))) != expected
    }

    assert different == {}, f"of {undisturbed.seen} points; undisturbed: {expected}"


def test_a_world_can_be_restored(world: UnitWorld) -> None:
    running(world)
    before = picture(world)

    with undone(world) as copy:
        copy.delete("a")
        copy.work()
        assert copy.resource("a") is None

    assert picture(world) == before
    assert world.cluster.names(GPU_UNIT)[0] == "a"
