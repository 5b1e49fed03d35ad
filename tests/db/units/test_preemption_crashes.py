"""A process is killed before or after any write of a preemption; the next one completes it.

The points are the ones of `test_crash_points`.
"""

from collections import Counter

import pytest

from gpuplatform.operations.models import Operation
from gpuplatform.reconciliation import epoch
from tests.db.units.test_crash_points import Points, chosen, undone
from tests.fakes.cluster import Killed
from tests.fakes.preemption import ask, end_notices, run_matcher, run_preemptible, stops
from tests.fakes.unit_world import UnitWorld
from units.models import CapacityRequest, GpuUnit, PreemptionNotice
from units.preemption_events import announce_preemptions

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(3600)]


def preempt(world: UnitWorld) -> None:
    """Give the notice and announce it, and stop the units when its time has passed."""
    run_matcher()
    announce_preemptions(world.cluster)
    end_notices()
    run_matcher()


def preempted(world: UnitWorld, points: Points) -> object:
    """Preempt with the points, then work undisturbed; return the end state."""
    with undone(world) as copy:
        ask("urgent", "default")
        try:
            with points.passed(copy):
                preempt(copy)
        except Killed:
            preempt(copy)
        copy.disturbed = lambda: points.passed(copy)
        copy.work(8)
        copy.seed(2)
        copy.work(12)
        return picture()


def picture() -> object:
    units = GpuUnit.objects.filter(deleted_at__isnull=True)
    return {
        "operations": Counter(Operation.objects.values_list("kind", "phase")),
        "units": Counter(units.values_list("role", "name", "phase").exclude(role="stock")),
        "claims": units.filter(claimed_by__isnull=False).count(),
        "requests": Counter(CapacityRequest.objects.values_list("phase", "is_after_preemption")),
        "evicted": CapacityRequest.objects.filter(evicted_at__isnull=False).count(),
        "notices": PreemptionNotice.objects.count(),
        "stops": stops(),
    }


def test_a_crash_at_any_point_of_a_preemption_changes_no_result(world: UnitWorld) -> None:
    assert epoch.matches()
    run_preemptible(world, "one", "two")
    undisturbed = Points()
    expected = preempted(world, undisturbed)
    assert undisturbed.seen > 40, "the points are not counted"

    different = {
        point: ended
        for point in chosen(undisturbed.seen)
        if (ended := preempted(world, Points(point))) != expected
    }

    assert different == {}, f"of {undisturbed.seen} points; undisturbed: {expected}"
    assert expected == {
        "operations": Counter(
            {
                ("stock.seed", "Succeeded"): 2,
                ("unit.create", "Succeeded"): 3,
                ("unit.stop", "Succeeded"): 1,
                ("unit.start", "Succeeded"): 1,
            }
        ),
        "units": Counter({("active", name, "Ready"): 1 for name in ("one", "two", "urgent")}),
        "claims": 0,
        "requests": Counter({("Closed", False): 1, ("Closed", True): 1}),
        "evicted": 1,
        "notices": 0,
        "stops": ["two"],
    }
