"""`make chaos-x10`: a process dies before and after each write, one run per point, and a table.

The points are enumerated, see `tests/db/units/test_crash_points.py`; the suite tests a few.
Not collected by the suite: `pytest tests/chaos/x10.py` runs it.
"""

import sys

import pytest

from gpuplatform.reconciliation import epoch
from tests.db.units.conftest import world as world  # noqa: PLC0414 - the fixture
from tests.db.units.test_crash_points import SCENARIOS, Points, end_of
from tests.fakes.unit_world import UnitWorld
from units.consistency import unit_inconsistencies

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(7200)]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_point_ends_as_the_undisturbed_run(
    world: UnitWorld, scenario: str, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare, act = SCENARIOS[scenario]
    assert epoch.matches()
    prepare(world)
    undisturbed = Points()
    expected = end_of(world, act, undisturbed)

    ends = [end_of(world, act, Points(point)) for point in range(1, undisturbed.seen + 1)]

    wrong = [point for point, ended in enumerate(ends, 1) if ended != expected]
    act(world)
    world.work(12)
    faults = list(unit_inconsistencies(world.cluster))
    summary = f"same end {len(ends) - len(wrong):4}  faults {len(faults)}"
    with capsys.disabled():
        sys.stdout.write(f"\n{scenario:28} points {undisturbed.seen:4}  {summary}\n")
    assert (wrong, faults) == ([], [])
