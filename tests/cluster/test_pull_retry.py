"""A unit whose image pull fails is started once on the stock of another node."""

import pytest

from gpuplatform.kube.kinds import NODE
from gpuplatform.workloads import startup
from gpuplatform.workloads.causes import StartupCause
from tests.cluster.tenant_units import Units
from units.models import GpuUnit

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]

STOCK = 4


def test_a_failed_pull_is_tried_once_on_another_node(
    units: Units, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(startup, "PULL_GRACE_SECONDS", 0.0)
    seed_on_two_nodes(units)
    units.create("a", image="registry.example.invalid/a:1")

    first = units.settle("a", "Failed")
    row = units.settle_elsewhere("a", "Failed")
    for _ in range(3):  # A second failure is final.
        units.run_operations()
        units.tick()

    row.refresh_from_db()
    assert (first.cause, row.cause, row.phase) == (
        StartupCause.IMAGE_PULL_FAILED,
        StartupCause.IMAGE_PULL_FAILED,
        "Failed",
    )
    [pod] = units.pods(row)
    assert pod["spec"]["nodeName"] != row.avoided_node
    assert first.source_uid != row.source_uid
    assert GpuUnit.objects.filter(role="stock", consumed_by=row.uid).count() == 2
    assert GpuUnit.objects.filter(role="stock", consumed_by="").count() == STOCK - 2


def seed_on_two_nodes(units: Units) -> None:
    """Seed half of the stock on a node, and the other half on other nodes."""
    node = units.cluster.list(NODE).items[0]["metadata"]["name"]
    others = [one["metadata"]["name"] for one in units.cluster.list(NODE).items[1:]]
    for cordoned in (others, [node]):
        for name in cordoned:
            units.cluster.merge_patch(NODE, name, {"spec": {"unschedulable": True}})
        units.seed(STOCK // 2)
        for name in cordoned:
            units.cluster.merge_patch(NODE, name, {"spec": {"unschedulable": None}})
