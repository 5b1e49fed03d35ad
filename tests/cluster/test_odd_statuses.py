"""Odd statuses of the objects of a unit: each reconciliation continues, and the unit recovers."""

import logging

import pytest

from gpuplatform.kube.errors import ClusterError
from gpuplatform.kube.kinds import DEPLOYMENT, GPU_UNIT, NODE, POD, Manifest, ResourceKind
from tests.cluster.odd_statuses import Statuses
from tests.cluster.tenant_units import Units

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]

ROUNDS = 8


def write(units: Units, kind: ResourceKind, found: Manifest, status: Manifest) -> None:
    """Write a status, which the server can reject."""
    metadata = found["metadata"]
    try:
        units.cluster.merge_patch(
            kind,
            metadata["name"],
            {"status": status},
            namespace=metadata.get("namespace"),
            subresource="status",
        )
    except ClusterError:
        return


def test_a_unit_recovers_from_odd_statuses(units: Units, caplog: pytest.LogCaptureFixture) -> None:
    statuses = Statuses(seed=5)
    units.seed(1)
    units.create("a")
    row = units.settle("a", "Ready")

    for _ in range(ROUNDS):
        [pod] = units.pods(row)
        write(units, POD, pod, statuses.odd(statuses.pod()))
        write(units, DEPLOYMENT, units.deployment(row), statuses.odd(statuses.workload()))
        unit = units.live(GPU_UNIT, row)
        assert unit is not None
        write(units, GPU_UNIT, unit, statuses.odd(unit["status"]))
        node = units.cluster.get(NODE, pod["spec"]["nodeName"])
        assert node is not None
        write(units, NODE, node, statuses.odd(statuses.node()))
        units.tick()

    units.settle("a", "Ready", "UnitReady")
    assert units.row("a").uid == row.uid
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == []
