"""A failed call of a deletion: the unit remains and counts until the deletion is confirmed."""

import pytest

from gpuplatform.kube.errors import (
    ClusterConflict,
    ClusterError,
    ClusterForbidden,
    ClusterRejected,
    ClusterUnavailable,
)
from gpuplatform.kube.kinds import DEPLOYMENT, GPU_UNIT
from tests.fakes.unit_world import UnitWorld, state, unit_row
from units.selectors import active_count

pytestmark = pytest.mark.django_db

FAULTS: dict[str, tuple[ClusterError, bool]] = {
    "unreachable": (ClusterUnavailable("connection refused"), False),
    "a server error": (ClusterUnavailable("internal error", status=500), False),
    "forbidden": (ClusterForbidden("gpuunits is forbidden", status=403), False),
    "a conflict": (ClusterConflict("changed", reason="Conflict", status=409), False),
    "no answer after acting": (ClusterUnavailable("timed out"), True),
    # A 404 that does not name the object is a rejection, and does not confirm its absence.
    "another 404": (ClusterUnavailable("the server has no such kind", status=404), False),
}


@pytest.fixture
def running(world: UnitWorld) -> UnitWorld:
    """A platform with the unit `a`."""
    world.seed(1)
    world.create("a")
    world.work()
    assert unit_row("a").phase == "Ready"
    return world


@pytest.mark.parametrize("fault", FAULTS)
def test_a_failed_deletion_releases_nothing_and_is_retried(running: UnitWorld, fault: str) -> None:
    error, acts_first = FAULTS[fault]
    operation = running.delete("a")
    running.cluster.fail("delete", GPU_UNIT, error, acts_first=acts_first, times=3)

    for attempt in range(1, 4):
        waiting = running.run(operation)
        if acts_first and attempt > 1:
            break  # The second attempt finds no unit.
        assert (waiting.phase, waiting.failures) == ("Pending", attempt)
        assert str(error) in waiting.message
        assert (unit_row("a").phase, unit_row("a").deleted_at) == ("Terminating", None)
        assert active_count() == 1

    running.cluster.heal()
    running.run(operation)
    running.work()
    assert state(operation).phase == "Succeeded"
    assert running.cluster.names(GPU_UNIT) == []
    assert unit_row("a").deleted_at is not None
    assert active_count() == 0


def test_an_unreadable_deletion_is_not_complete(running: UnitWorld) -> None:
    operation = running.delete("a")
    running.run(operation)
    running.cluster.fail("list", None, ClusterRejected("no such namespace", status=404), times=9)

    running.reconcile()

    assert state(operation).phase == "Succeeded"
    assert (unit_row("a").phase, unit_row("a").deleted_at) == ("Terminating", None)
    assert active_count() == 1
    running.cluster.heal()
    running.work()
    assert unit_row("a").deleted_at is not None
    assert running.cluster.names(DEPLOYMENT) == []
