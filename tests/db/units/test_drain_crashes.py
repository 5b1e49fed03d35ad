"""A process is killed before or after any write of a drain; the next one completes the drain.

The points are those of `test_crash_points`. Removals and seedings of a drain have random ids, so
that the end state is compared without names of stock.
"""

import itertools
from collections import Counter

import pytest
from django.db.models.functions import Now

from gpuplatform.kube.kinds import NODE, POD
from gpuplatform.operations.models import Operation
from gpuplatform.reconciliation import epoch
from inventory.models import NodeDrain
from inventory.services.nodes import nodes_update
from tests.db.units.test_crash_points import FIRST_OF_THE_DISTURBED, Points, chosen, undone
from tests.factories.nodes import node_manifest, records
from tests.fakes.cluster import Killed
from tests.fakes.unit_world import UnitWorld
from units.models import GpuUnit

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(3600)]


def drained(world: UnitWorld, points: Points) -> object:
    """Drain n1 with the points, then work undisturbed; return the end state."""
    with undone(world) as copy:
        copy.disturbed = lambda: points.passed(copy)
        try:
            with copy.disturbed():
                copy.ask_drain("n1", units="stop", noticeMinutes=1)
        except Killed:  # Without a response, the caller repeats the request.
            copy.numbers = itertools.count(FIRST_OF_THE_DISTURBED)
            copy.ask_drain("n1", units="stop", noticeMinutes=1)
        copy.work(4)  # The Events about the notice.
        NodeDrain.objects.update(deadline=Now())
        copy.work(16)
        return picture(copy)


def picture(world: UnitWorld) -> object:
    pods = world.cluster.list(POD).items
    units = GpuUnit.objects.filter(deleted_at__isnull=True)
    return {
        "operations": Counter(Operation.objects.values_list("kind", "phase")),
        "units": Counter(units.values_list("role", "phase")),
        "claims": units.filter(claimed_by__isnull=False).count(),
        "nodes": Counter(pod["spec"]["nodeName"] for pod in pods),
        "notified": [len(drain.notified) for drain in NodeDrain.objects.all()],
    }


def test_a_crash_at_any_point_of_a_drain_changes_no_result(world: UnitWorld) -> None:
    assert epoch.matches()
    world.cluster.places_pods = True
    nodes = [node_manifest("n1"), node_manifest("n2")]
    for node in nodes:
        world.cluster.put(NODE, node)
    nodes_update(records(nodes), version=1, is_complete=True)
    world.seed(3)
    world.create("a")
    world.work()
    undisturbed = Points()
    expected = drained(world, undisturbed)
    assert undisturbed.seen > 40, "the points are not counted"

    different = {
        point: ended
        for point in chosen(undisturbed.seen)
        if (ended := drained(world, Points(point))) != expected
    }

    assert different == {}, f"of {undisturbed.seen} points; undisturbed: {expected}"
    assert expected == {
        "operations": Counter(
            {
                ("stock.seed", "Succeeded"): 2,
                ("unit.create", "Succeeded"): 1,
                ("node.drain", "Succeeded"): 1,
                ("stock.remove", "Succeeded"): 1,
                ("unit.stop", "Succeeded"): 1,
            }
        ),
        "units": Counter({("stock", "Ready"): 2, ("active", "Stopped"): 1}),
        "claims": 0,
        "nodes": Counter({"n2": 2}),
        "notified": [1],
    }
