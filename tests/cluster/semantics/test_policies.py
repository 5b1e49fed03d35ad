"""NetworkPolicies as objects, on every server. Their effect depends on the network plugin."""

import pytest

from gpuplatform.kube.kinds import NETWORK_POLICY, Manifest
from tests.cluster.world import World

pytestmark = pytest.mark.cluster


def policy(**spec: object) -> Manifest:
    return {
        "apiVersion": NETWORK_POLICY.api_version,
        "kind": NETWORK_POLICY.kind,
        "metadata": {"name": "one"},
        "spec": spec,
    }


def test_a_policy_gets_its_types_and_the_protocol_of_its_ports(world: World) -> None:
    world.create(NETWORK_POLICY, policy(podSelector={}, egress=[{"ports": [{"port": 4222}]}]))

    spec = world.get(NETWORK_POLICY, "one")["spec"]

    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["egress"] == [{"ports": [{"protocol": "TCP", "port": 4222}]}]


def test_a_policy_without_rules_is_for_ingress(world: World) -> None:
    world.create(NETWORK_POLICY, policy(podSelector={}))

    found = world.get(NETWORK_POLICY, "one")

    assert found["spec"] == {"podSelector": {}, "policyTypes": ["Ingress"]}
    assert found["metadata"]["generation"] == 1
