"""What `kubectl create` sends is no JSON: protobuf, with Go's zeros in it."""

import json

import pytest

from tests.cluster.accounts import kubectl
from tests.cluster.world import World

pytestmark = pytest.mark.cluster

CREATED = {
    "deployment web --image=registry.example/app:1 --replicas=0 --port=80 -- serve --quietly": {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "web"}},
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
        },
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
        "template": {
            "metadata": {"creationTimestamp": None, "labels": {"app": "web"}},
            "spec": {
                "containers": [
                    {
                        "name": "app",
                        "image": "registry.example/app:1",
                        "command": ["serve", "--quietly"],
                        "ports": [{"containerPort": 80, "protocol": "TCP"}],
                        "resources": {},
                        "terminationMessagePath": "/dev/termination-log",
                        "terminationMessagePolicy": "File",
                        "imagePullPolicy": "IfNotPresent",
                    }
                ],
                "restartPolicy": "Always",
                "terminationGracePeriodSeconds": 30,
                "dnsPolicy": "ClusterFirst",
                "securityContext": {},
                "schedulerName": "default-scheduler",
            },
        },
    },
    "service clusterip web --tcp=80:http --clusterip=None": {
        "clusterIP": "None",
        "clusterIPs": ["None"],
        "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "ports": [{"name": "80-http", "port": 80, "protocol": "TCP", "targetPort": "http"}],
        "selector": {"app": "web"},
        "sessionAffinity": "None",
        "type": "ClusterIP",
    },
}


@pytest.mark.parametrize("words", list(CREATED), ids=lambda words: words.split()[0])
def test_kubectl_creates_what_json_would(world: World, words: str) -> None:
    how = ("--dry-run=server", "-o", "json", "-n", world.namespace)

    said = kubectl(world.kubeconfig, "create", *how, *words.split())

    assert json.loads(said)["spec"] == CREATED[words]


def test_kubectl_creates_a_secret_from_words(world: World) -> None:
    kubectl(
        *(world.kubeconfig, "create", "secret", "generic", "one", "-n", world.namespace),
        "--from-literal=a=b",
    )

    said = kubectl(world.kubeconfig, "get", "secret", "one", "-n", world.namespace, "-o", "json")

    assert json.loads(said)["data"] == {"a": "Yg=="}
