"""Pods without the unit-uid label, which a user removed, still hold their GPUs."""

import pytest

from gpuplatform.kube.kinds import POD
from gpuplatform.planning.ownership import UNIT_LABEL
from tests.fakes.unit_world import NAMESPACE, UnitWorld, unit_row

pytestmark = pytest.mark.django_db


def test_a_start_waits_for_a_pod_that_lost_its_label(world: UnitWorld) -> None:
    world.seed(2)
    world.create("a")
    world.work()
    world.stop("a")
    world.work()
    labels = {UNIT_LABEL: "a"}
    world.cluster.put(
        POD, {"metadata": {"name": "left", "namespace": NAMESPACE, "labels": labels}}
    )

    operation = world.start("a")
    assert world.run(operation).reason == "Stopping"

    world.cluster.remove(POD, "left", namespace=NAMESPACE)
    assert world.run(operation).phase == "Succeeded"
    world.work()
    assert unit_row("a").phase == "Ready"
