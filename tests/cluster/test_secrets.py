"""Templates that refer to Secrets: the message of a missing one, and the recovery."""

import base64
from functools import partial
from typing import Any

import pytest

from gpuplatform.kube.errors import ClusterRejected
from gpuplatform.kube.kinds import CONFIG_MAP, DEPLOYMENT, SECRET, STOCK_POOL, Manifest
from inventory.requests.pools import StockPoolPatch
from inventory.services.pools import pool_update
from tests.cluster.pools import Pools
from tests.cluster.tenant_units import Units
from tests.cluster.world import World
from units.requests import GpuUnitUpdate
from units.services.units import unit_update

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]

PLAIN = {"name": "HF_TOKEN", "value": "plain"}


def referring(name: str = "hf", key: str = "token") -> dict[str, Any]:
    """Return a variable that refers to a Secret."""
    return {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": name, "key": key}}}


def template(variable: dict[str, Any]) -> dict[str, Any]:
    return {"command": ["serve"], "envs": [variable]}


def secret(world: World, **data: str) -> None:
    """Create the Secret, or add keys to it."""
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
    if world.find(SECRET, "hf"):
        world.patch(SECRET, "hf", {"data": encoded})
    else:
        world.create(SECRET, {"metadata": {"name": "hf"}, "data": encoded})


def variables(deployment: Manifest | None) -> list[Manifest]:
    """Return the variables of the pods that the platform does not set."""
    assert deployment is not None
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    return [one for one in container["env"] if one["name"] == "HF_TOKEN"]


def test_a_pool_reports_the_missing_secret_or_key_and_recovers(
    installed: World, pools: Pools
) -> None:
    pools.create("a", template=template(referring()))
    first = pools.settle("a", "Failed", "PodStartupFailed")
    secret(installed, other="x")
    missing = f"couldn't find key token in Secret {pools.namespace}/hf"
    pools.wait(lambda: missing in pools.reconcile("a").message, lambda: pools.row("a").message)

    secret(installed, token="hunter2")

    assert 'CreateContainerConfigError: secret "hf" not found' in first.message
    row = pools.settle("a", "Ready")
    found = pools.cluster.get(DEPLOYMENT, "pool-a", namespace=pools.namespace)
    assert variables(found) == [referring()]
    assert "hunter2" not in f"{found} {row.spec} {row.message}"


def test_a_unit_reports_the_missing_secret_and_recovers(installed: World, units: Units) -> None:
    units.seed(1)
    units.create("a", template=template(referring()))
    row = units.settle("a", "Failed")

    secret(installed, token="hunter2")

    assert row.reason == "PodStartupFailed"
    assert 'CreateContainerConfigError: secret "hf" not found' in row.message
    units.settle("a", "Ready")


def test_a_pool_waits_for_its_config_maps(installed: World, pools: Pools) -> None:
    source = {"configMapKeyRef": {"name": "models", "key": "path"}}
    optional = {"configMapKeyRef": {"name": "missing", "key": "a", "optional": True}}
    envs = [{"name": "MODEL", "valueFrom": source}, {"name": "OTHER", "valueFrom": optional}]
    all_of = [{"prefix": "A_", "configMapRef": {"name": "all"}}]
    pools.create("a", template={"command": ["serve"], "envs": envs, "envFrom": all_of})

    for name in ("all", "models"):
        missing = f'configmap "{name}" not found'
        pools.wait(partial(_says, pools, missing), lambda: pools.row("a").message)
        installed.create(CONFIG_MAP, {"metadata": {"name": name}, "data": {"path": "/m"}})

    pools.settle("a", "Ready")


def _says(pools: Pools, text: str) -> bool:
    return text in pools.reconcile("a").message


def test_a_value_of_a_pool_becomes_a_reference_and_a_value_again(
    installed: World, pools: Pools
) -> None:
    secret(installed, token="hunter2")
    pools.create("a", template=template(PLAIN))

    for number, variable in enumerate((referring(), PLAIN)):
        pools.settle("a", "Ready")
        asked = {"operationID": f"change-{number}", "template": template(variable)}
        place = {"namespace": installed.namespace, "name": "a"}
        pools.work(
            pool_update(tenant=pools.tenant, body=StockPoolPatch.parse(asked), **place),
        )
        pools.settle("a", "Ready")

        assert variables(installed.find(DEPLOYMENT, "pool-a")) == [variable]


def test_a_value_of_a_unit_becomes_a_reference_and_a_value_again(
    installed: World, units: Units
) -> None:
    secret(installed, token="hunter2")
    units.seed(1)
    units.create("a", template=template(PLAIN))

    for number, variable in enumerate((referring(), PLAIN)):
        units.settle("a", "Ready")
        asked = {"operationID": f"change-{number}", "template": template(variable)}
        units.finish(unit_update(tenant=units.tenant, name="a", body=GpuUnitUpdate.parse(asked)))
        units.settle("a", "Ready")

        assert variables(installed.find(DEPLOYMENT, "unit-a")) == [variable]


def test_pool_by_hand_cannot_reference_a_secret_of_the_platform(pools: Pools) -> None:
    spec = {"specName": "g1.1", "replicas": 1}

    with pytest.raises(ClusterRejected) as refused:
        pools.by_hand("a", {**spec, "template": template(referring("fn-1-queue", "queue.creds"))})

    assert refused.value.reason == "Invalid"
    assert pools.live(STOCK_POOL) == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "HF"}, "name"),
        ({"name": ""}, "name"),
        ({"key": "a b"}, "key"),
        ({"key": "k" * 254}, "key"),
        ({"key": None}, "key"),
    ],
    ids=["a name in upper case", "an empty name", "a blank in the key", "a long key", "no key"],
)
def test_definitions_refuse_what_their_schema_expresses(
    installed: World, change: dict[str, Any], field: str
) -> None:
    reference = {"name": "hf", "key": "token", **change}
    given = {name: value for name, value in reference.items() if value is not None}
    envs = [{"name": "A", "valueFrom": {"secretKeyRef": given}}]
    spec = {"specName": "g1.1", "replicas": 0, "template": {"envs": envs}}
    body = installed.placed(STOCK_POOL, {"metadata": {"name": "a"}, "spec": spec})

    reply = installed.http("POST", installed.path(STOCK_POOL), body)

    assert reply.status == 422
    fields = [one for one in reply.fields if one != "<nil>"]  # Rules that were not evaluated.
    assert fields == [f"spec.template.envs[0].valueFrom.secretKeyRef.{field}"]
