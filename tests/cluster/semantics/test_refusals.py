"""Bodies that a real API server refuses, with status, reason and fields of the error.

Messages are not compared, since they differ between releases.
"""

from typing import Any, NamedTuple

import pytest

from gpuplatform.kube.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    LEASE,
    NODE,
    POD,
    PRIORITY_CLASS,
    SERVICE,
    Manifest,
    ResourceKind,
)
from tests.cluster.world import World, container, deployment, pod

pytestmark = pytest.mark.cluster
MAIN = "spec.template.spec.containers[0]"


class Refusal(NamedTuple):
    """A body to create, and the expected error."""

    kind: ResourceKind
    body: Manifest
    status: int
    reason: str
    fields: list[str]


def invalid(kind: ResourceKind, body: Manifest, *fields: str) -> Refusal:
    return Refusal(kind, body, 422, "Invalid", list(fields))


def web(**changes: Any) -> Manifest:
    """Return a Deployment whose container has these changes."""
    return deployment("web", container() | changes)


def pod_template(**spec: Any) -> Manifest:
    manifest = deployment("web")
    manifest["spec"]["template"]["spec"] |= spec
    return manifest


def service(**port: Any) -> Manifest:
    return {"metadata": {"name": "web"}, "spec": {"ports": [port]}}


def strategy(**entry: Any) -> Manifest:
    return deployment("web", strategy=entry)


def from_secret(**changes: str) -> Manifest:
    return {"valueFrom": {"secretKeyRef": {"name": "hf", "key": "token", **changes}}}


def two_sources() -> Manifest:
    source = from_secret()["valueFrom"] | {"fieldRef": {"fieldPath": "metadata.name"}}
    return {"name": "A", "valueFrom": source}


REFUSALS = {
    "no name": invalid(CONFIG_MAP, {"metadata": {}}, "metadata.name"),
    "a name of 254 characters": invalid(
        CONFIG_MAP, {"metadata": {"name": "a" * 254}}, "metadata.name"
    ),
    "a label value of 64 characters": invalid(
        CONFIG_MAP,
        {"metadata": {"name": "one", "labels": {"a": "b" * 64}}},
        "metadata.labels",
    ),
    "an annotation key with a blank": invalid(
        CONFIG_MAP,
        {"metadata": {"name": "one", "annotations": {"a b": "c"}}},
        "metadata.annotations",
    ),
    "an owner without uid": invalid(
        CONFIG_MAP,
        {
            "metadata": {
                "name": "one",
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "a", "uid": ""}],
            }
        },
        "metadata.ownerReferences.uid",
    ),
    "a key of data with a slash": invalid(
        CONFIG_MAP, {"metadata": {"name": "one"}, "data": {"a/b": "c"}}, "data[a/b]"
    ),
    "data that is not text": Refusal(
        CONFIG_MAP, {"metadata": {"name": "one"}, "data": {"a": 1}}, 400, "BadRequest", []
    ),
    "a service with a name in capitals": invalid(
        SERVICE, {"metadata": {"name": "Web"}, "spec": {"ports": [{"port": 80}]}}, "metadata.name"
    ),
    "a service port of 70000": invalid(
        SERVICE, service(port=70000), "spec.ports[0].port", "spec.ports[0].targetPort"
    ),
    "an unknown service protocol": invalid(
        SERVICE, service(port=80, protocol="HTTP"), "spec.ports[0].protocol"
    ),
    "two service ports without names": invalid(
        SERVICE,
        {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}, {"port": 81}]}},
        "spec.ports[0].name",
        "spec.ports[1].name",
    ),
    "a container port of 0": invalid(
        DEPLOYMENT, web(ports=[{"containerPort": 0}]), f"{MAIN}.ports[0].containerPort"
    ),
    "a container port named with 16 letters": invalid(
        DEPLOYMENT,
        web(ports=[{"name": "a" * 16, "containerPort": 80}]),
        f"{MAIN}.ports[0].name",
    ),
    "a container named with a dot": invalid(DEPLOYMENT, web(name="a.b"), f"{MAIN}.name"),
    "an environment variable without name": invalid(
        DEPLOYMENT, web(env=[{"name": "", "value": "1"}]), f"{MAIN}.env[0].name"
    ),
    "a variable with a value and a source": invalid(
        DEPLOYMENT,
        web(env=[{"name": "A", "value": "1", **from_secret()}]),
        f"{MAIN}.env[0].valueFrom",
    ),
    "a variable with an empty source": invalid(
        DEPLOYMENT, web(env=[{"name": "A", "valueFrom": {}}]), f"{MAIN}.env[0].valueFrom"
    ),
    "a variable with two sources": invalid(
        DEPLOYMENT, web(env=[two_sources()]), f"{MAIN}.env[0].valueFrom"
    ),
    "a variable from a Secret in upper case": invalid(
        DEPLOYMENT,
        web(env=[{"name": "A", **from_secret(name="HF")}]),
        f"{MAIN}.env[0].valueFrom.secretKeyRef.name",
    ),
    "a variable from a Secret without a key": invalid(
        DEPLOYMENT,
        web(env=[{"name": "A", **from_secret(key="")}]),
        f"{MAIN}.env[0].valueFrom.secretKeyRef.key",
    ),
    "a variable from a key of a Secret with a blank": invalid(
        DEPLOYMENT,
        web(env=[{"name": "A", **from_secret(key="a b")}]),
        f"{MAIN}.env[0].valueFrom.secretKeyRef.key",
    ),
    "a request above its limit": invalid(
        DEPLOYMENT,
        web(resources={"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}}),
        f"{MAIN}.resources.requests",
    ),
    "a negative limit": invalid(
        DEPLOYMENT,
        web(resources={"limits": {"memory": "-1"}}),
        f"{MAIN}.resources.limits[memory]",
    ),
    "half a GPU": invalid(
        DEPLOYMENT,
        web(resources={"limits": {"nvidia.com/gpu": "500m"}}),
        f"{MAIN}.resources.limits[nvidia.com/gpu]",
    ),
    "an unknown pull policy": invalid(
        DEPLOYMENT, web(imagePullPolicy="Sometimes"), f"{MAIN}.imagePullPolicy"
    ),
    "no containers": invalid(
        DEPLOYMENT, pod_template(containers=[]), "spec.template.spec.containers"
    ),
    "two containers with one name": invalid(
        DEPLOYMENT,
        pod_template(containers=[container(), container()]),
        "spec.template.spec.containers[1].name",
    ),
    "a Deployment with pods that do not restart": invalid(
        DEPLOYMENT, pod_template(restartPolicy="Never"), "spec.template.spec.restartPolicy"
    ),
    "a Deployment without selector": invalid(
        DEPLOYMENT,
        {
            "metadata": {"name": "web"},
            "spec": {"template": deployment("web")["spec"]["template"]},
        },
        "spec.selector",
        "spec.template.metadata.labels",
    ),
    "an unknown strategy": invalid(DEPLOYMENT, strategy(type="Sudden"), "spec.strategy"),
    "Recreate with rolling parameters": invalid(
        DEPLOYMENT,
        strategy(type="Recreate", rollingUpdate={"maxSurge": 1}),
        "spec.strategy.rollingUpdate",
    ),
    "replicas that are text": Refusal(
        DEPLOYMENT, {**deployment("web"), "spec": {"replicas": "1"}}, 400, "BadRequest", []
    ),
    "a pod whose image has blanks": invalid(
        POD, pod("one", container(image=" app")), "spec.containers[0].image"
    ),
    "an unknown restart policy": invalid(
        POD, pod("one", restartPolicy="Often"), "spec.restartPolicy"
    ),
    "a lease of 0 seconds": invalid(
        LEASE,
        {"metadata": {"name": "one"}, "spec": {"leaseDurationSeconds": 0}},
        "spec.leaseDurationSeconds",
    ),
    "a priority above the maximum": invalid(
        PRIORITY_CLASS, {"metadata": {"name": "highest"}, "value": 1000000001}, "value"
    ),
    "a node with a bad label": invalid(
        NODE, {"metadata": {"name": "one", "labels": {"a": "b c"}}}, "metadata.labels"
    ),
}


@pytest.mark.parametrize("case", list(REFUSALS))
def test_a_body_is_refused(world: World, case: str) -> None:
    refusal = REFUSALS[case]
    body = world.placed(refusal.kind, refusal.body)

    reply = world.http("POST", world.path(refusal.kind), body)

    assert (reply.status, reply.reason, sorted(reply.fields)) == (
        refusal.status,
        refusal.reason,
        sorted(refusal.fields),
    )
