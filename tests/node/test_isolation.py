"""The network policies of the platform, enforced on real nodes."""

import pytest

from gpuplatform.deployment.isolation import QUEUE_LABEL, QUEUE_PORT, unit_policy, worker_policy
from gpuplatform.kube.kinds import NAMESPACE, NETWORK_POLICY, SERVICE_ACCOUNT
from gpuplatform.workloads.labels import FUNCTION_LABEL
from tests.cluster.world import World
from tests.node.cluster import NodeCluster
from tests.node.pods import reaches, run_app

pytestmark = [pytest.mark.node, pytest.mark.core, pytest.mark.policies]

DATABASE_PORT = 5432
TEST_NETWORK = "10.77.0.0/24"
"""The network of the nodes, from which the test asks pods to connect."""


def test_workers_reach_the_queue_and_nothing_else(world: World, nodes: NodeCluster) -> None:
    first, second = (node.name for node in nodes.nodes)
    servers = World("nodes", world.kubeconfig, world.cluster, world.http, f"{world.namespace}-s")
    metadata = {"name": servers.namespace, "labels": QUEUE_LABEL}
    world.cluster.create(
        NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    )
    servers.until(lambda: servers.find(SERVICE_ACCOUNT, "default"))
    try:
        queue = run_app(servers, "queue", first, port=QUEUE_PORT)
        database = run_app(servers, "database", first, port=DATABASE_PORT)
        workers = [
            run_app(world, f"worker-{name}", name, labels={FUNCTION_LABEL: "7"})
            for name in (first, second)
        ]
        unit = run_app(world, "unit", second)
        pods = [*workers, unit]
        assert all(reaches(pod, queue, QUEUE_PORT) for pod in pods)
        assert all(reaches(pod, database, DATABASE_PORT) for pod in pods)

        test = unit_policy(world.namespace)
        test["metadata"] = {"name": "test", "namespace": world.namespace}
        block = {"ipBlock": {"cidr": TEST_NETWORK}}
        test["spec"] = {"podSelector": {}, "ingress": [{"from": [block]}]}
        for policy in (test, worker_policy(world.namespace), unit_policy(world.namespace)):
            world.cluster.create(NETWORK_POLICY, policy)

        world.until(lambda: not any(reaches(pod, database, DATABASE_PORT) for pod in pods))
        world.until(lambda: not reaches(unit, queue, QUEUE_PORT))
        assert all(reaches(pod, queue, QUEUE_PORT) for pod in workers)
        world.until(lambda: all(reaches(pod, unit) for pod in workers))
    finally:
        servers.clear()
