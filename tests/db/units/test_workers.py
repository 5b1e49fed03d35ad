"""A worker of a function is created like every other unit."""

import pytest

from gpuplatform.kube.kinds import DEPLOYMENT, POD
from gpuplatform.tenancy.selectors import tenant_by_name
from tests.fakes.unit_world import NAMESPACE, UnitWorld, unit_row
from units.core.workers import SIDECAR_NAME
from units.requests import WorkerUnitCreate
from units.services.units import unit_create

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("catalogue")]

BLOCK = {
    "functionID": 7,
    "tenant": "default",
    "queueURL": "nats://127.0.0.1:4222",
    "credentialsSecret": "fn-7-queue",
}


def test_a_worker_is_created_on_stock_with_its_sidecar(world: UnitWorld) -> None:
    world.seed(1)
    body = {"operationID": "w-1", "name": "fn-7-a", "specName": "g1.1", "image": "example.com/f:1"}
    asked = WorkerUnitCreate.parse({**body, "serverless": BLOCK})

    accepted = unit_create(tenant=tenant_by_name(), body=asked)
    operation = world.run(accepted.operation)
    world.work()

    made = world.resource("fn-7-a")
    assert operation.phase == "Succeeded"
    assert made is not None
    assert made["spec"]["serverless"] == BLOCK
    assert unit_row("fn-7-a").phase == "Ready"
    deployment = world.cluster.get(DEPLOYMENT, "unit-fn-7-a", namespace=NAMESPACE)
    assert deployment is not None
    pod = deployment["spec"]["template"]["spec"]
    assert [one["name"] for one in pod["containers"]] == ["runtime-worker", SIDECAR_NAME]
    assert world.cluster.list(POD, namespace=NAMESPACE).items
    again = unit_create(tenant=tenant_by_name(), body=asked)
    assert again.operation.pk == operation.pk
