"""The order of locks of a stop of a group: operations, then units, as the workers lock them."""

import threading

import pytest
from django.db import connection, transaction

from gpuplatform.operations.models import Operation
from gpuplatform.tenancy.selectors import tenant_by_name
from tests.fakes.threads import DEADLINE_SECONDS, at_once
from tests.fakes.unit_world import UnitWorld
from units.models import GpuUnit
from units.services.group_runs import group_start, group_stop

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

SIZE = 3
_BLOCKED = (
    "SELECT EXISTS (SELECT FROM pg_stat_activity"
    " WHERE wait_event_type = 'Lock' AND datname = current_database())"
)


def wait_for_a_blocked_transaction() -> None:
    pause = threading.Event()
    for _ in range(int(DEADLINE_SECONDS * 100)):
        with connection.cursor() as cursor:
            cursor.execute(_BLOCKED)
            if cursor.fetchone()[0]:
                return
        pause.wait(0.01)
    pytest.fail("nothing waits for a lock")


def test_a_stop_beside_the_worker_of_a_start_is_not_a_deadlock(world: UnitWorld) -> None:
    tenant = tenant_by_name()
    world.seed(SIZE)
    world.create_group("team", SIZE)
    world.work()
    group_stop(tenant=tenant, name="team", operation_id="stop-1")
    world.work()
    world.seed(SIZE)
    group_start(tenant=tenant, name="team", operation_id="start-1")
    start = Operation.objects.filter(tenant=tenant, kind="unit.start").latest("pk")
    is_locked = threading.Event()

    def worker() -> int:
        with transaction.atomic():
            Operation.objects.select_for_update(no_key=True).get(pk=start.pk)
            is_locked.set()
            wait_for_a_blocked_transaction()
            rows = GpuUnit.objects.filter(group_name="team")
            return len(rows.order_by("-pk").select_for_update(no_key=True))

    def stop() -> int:
        assert is_locked.wait(DEADLINE_SECONDS)
        group_stop(tenant=tenant, name="team", operation_id="stop-2")
        return 0

    assert at_once([worker, stop]) == [SIZE, 0]
