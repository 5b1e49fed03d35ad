"""Groups of units on an API server: their Services, the environment of their pods, and the end."""

from typing import Any

import pytest

from gpuplatform.kube.kinds import DEPLOYMENT, GPU_UNIT, SERVICE, Manifest
from gpuplatform.operations.models import Operation
from gpuplatform.operations.services import Accepted
from tests.cluster.tenant_units import HTTP, SPEC, Units
from tests.factories.unit_rows import catalogued
from units.core.groups import GROUP_LABEL
from units.models import CapacityRequest
from units.requests import UnitGroupCreate
from units.services.groups import group_create, group_request_deletion
from units.services.matcher import match

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]


def accept(units: Units, size: int = 2, **fields: Any) -> Accepted:
    """Request a group."""
    asked = {
        "operationID": "create-team",
        "name": "team",
        "size": size,
        "unit": {"specName": SPEC, "image": "busybox:1.36", "template": HTTP},
        **fields,
    }
    catalogued(SPEC)
    return group_create(tenant=units.tenant, body=UnitGroupCreate.parse(asked))


def delete(units: Units) -> Operation:
    accepted = group_request_deletion(tenant=units.tenant, name="team", operation_id="delete-team")
    return units.finish(accepted)


def names(units: Units, label: str = GROUP_LABEL) -> list[str]:
    """Return the names of the units of the group, found by their label."""
    found = units.cluster.list(GPU_UNIT, namespace=units.namespace, label_selector=f"{label}=team")
    return sorted(one["metadata"]["name"] for one in found.items)


def environment(deployment: Manifest) -> dict[str, str]:
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one.get("value", "") for one in container["env"]}


def test_each_unit_of_a_group_has_a_headless_service_and_knows_its_place(units: Units) -> None:
    units.seed(2)

    operation = units.finish(accept(units))
    rows = [units.settle(f"team-{rank}", "Ready") for rank in range(2)]

    assert (operation.phase, operation.progress_done) == ("Succeeded", 2)
    assert names(units) == ["team-0", "team-1"]
    for rank, row in enumerate(rows):
        service = units.live(SERVICE, row)
        assert service is not None
        assert service["spec"]["clusterIP"] == "None"
        assert service["spec"]["publishNotReadyAddresses"] is True
        [owner] = service["metadata"]["ownerReferences"]
        assert owner["uid"] == row.uid
        found = environment(units.deployment(row))
        assert (found["GROUP_NAME"], found["GROUP_RANK"], found["GROUP_SIZE"]) == (
            "team",
            str(rank),
            "2",
        )
        assert found["GROUP_MASTER"] == f"unit-team-0.{units.namespace}.svc.cluster.local"
        [pod] = units.pods(row)
        assert pod["spec"]["hostname"] == f"team-{rank}"
        assert pod["metadata"]["labels"][GROUP_LABEL] == "team"
    assert rows[0].access_url == f"http://unit-team-0.{units.namespace}.svc.cluster.local:8080"


def test_a_group_without_ports_has_services_and_settles(units: Units) -> None:
    units.seed(2)
    unit = {"specName": SPEC, "image": "busybox:1.36"}

    units.finish(accept(units, unit=unit))
    row = units.settle("team-1", "Ready")
    before = units.live(SERVICE, row)
    units.tick()

    assert before is not None
    assert "ports" not in before["spec"]
    assert units.live(SERVICE, row) == before
    assert (row.service_name, row.access_url) == ("unit-team-1", "")


def test_the_deletion_of_a_group_leaves_no_unit_and_no_service(units: Units) -> None:
    units.seed(2)
    units.finish(accept(units))
    rows = [units.settle(f"team-{rank}", "Ready") for rank in range(2)]

    operation = delete(units)

    assert operation.phase == "Succeeded"
    units.until(lambda: names(units) == [])
    units.until(lambda: not any(units.live(SERVICE, row) for row in rows))
    units.until(lambda: not any(units.live(DEPLOYMENT, row) for row in rows))


def test_a_waiting_group_starts_when_all_of_its_stock_is_ready(units: Units) -> None:
    accepted = accept(units, wait={"maxSeconds": 600})
    units.run_operations()
    units.seed(1)
    assert match(SPEC) == 0
    assert names(units) == []

    units.seed(1)
    match(SPEC)
    operation = units.finish(accepted)

    assert operation.phase == "Succeeded"
    for rank in range(2):
        units.settle(f"team-{rank}", "Ready")
    assert CapacityRequest.objects.get().granted_at is not None
