"""Pods that a real API server refuses, with the fields of the error.

They are sent as dry runs, so an accepted one is not stored.
"""

from typing import Any

import pytest

from gpuplatform.kube.kinds import POD
from tests.cluster.world import Http, container, pod

pytestmark = pytest.mark.cluster
MAIN = "spec.containers[0]"
NODES = "spec.affinity.nodeAffinity"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TCP = {"tcpSocket": {"port": 80}}


def main(*fields: str, **changes: Any) -> tuple[dict[str, Any], list[str]]:
    """Return a container with these changes, and the fields of the error."""
    return pod("one", container() | changes), [f"{MAIN}.{field}" for field in fields]


def spec(*fields: str, **changes: Any) -> tuple[dict[str, Any], list[str]]:
    """Return a pod whose spec has these changes, and the fields of the error."""
    return pod("one", **changes), [f"spec.{field}" for field in fields]


def env(*fields: str, **source: Any) -> tuple[dict[str, Any], list[str]]:
    return main(
        *(f"env[0].valueFrom.{field}" for field in fields),
        env=[{"name": "A", "valueFrom": source}],
    )


def volume(field: str, **source: Any) -> tuple[dict[str, Any], list[str]]:
    return spec(f"volumes[0].{field}", volumes=[{"name": "v", **source}])


def toleration(field: str, **entry: Any) -> tuple[dict[str, Any], list[str]]:
    return spec(f"tolerations[0].{field}", tolerations=[entry])


def ready(field: str, **probe: Any) -> tuple[dict[str, Any], list[str]]:
    return main(f"readinessProbe{field}", readinessProbe=probe)


def node_term(field: str, **expression: Any) -> tuple[dict[str, Any], list[str]]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", **expression}]}]}
    return spec(
        f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].{field}",
        affinity={"nodeAffinity": {REQUIRED: terms}},
    )


def apart(field: str, **term: Any) -> tuple[dict[str, Any], list[str]]:
    return spec(
        f"affinity.podAntiAffinity.{REQUIRED}[0].{field}",
        affinity={"podAntiAffinity": {REQUIRED: [term]}},
    )


PODS = {
    "a probe with two handlers": ready(".tcpSocket", exec={"command": ["a"]}, **TCP),
    "a probe without handler": ready("", periodSeconds=3),
    "a probe of a port of 0": ready(".httpGet.port", httpGet={"path": "/", "port": 0}),
    "an unknown probe scheme": ready(".httpGet.scheme", httpGet={"port": 80, "scheme": "GOPHER"}),
    "a probe without a command": ready(".exec.command", exec={}),
    "a probe with a negative delay": main(
        "livenessProbe.failureThreshold",
        "livenessProbe.periodSeconds",
        livenessProbe={**TCP, "periodSeconds": -1, "failureThreshold": -2},
    ),
    "a liveness probe with two successes": main(
        "livenessProbe.successThreshold", livenessProbe={**TCP, "successThreshold": 2}
    ),
    "a hook without handler": main("lifecycle.preStop", lifecycle={"preStop": {}}),
    "an init container with a probe": spec(
        "initContainers[0].readinessProbe",
        initContainers=[{**container(), "name": "first", "readinessProbe": TCP}],
    ),
    "an init container with the name of a container": spec(
        "initContainers[0].name", initContainers=[container()]
    ),
    "a mount of a missing volume": main(
        "volumeMounts[0].name", volumeMounts=[{"name": "v", "mountPath": "/a"}]
    ),
    "two mounts with one path": (
        pod(
            "one",
            container(volumeMounts=[{"name": "v", "mountPath": "/a"}] * 2),
            volumes=[{"name": "v", "emptyDir": {}}],
        ),
        [f"{MAIN}.volumeMounts[1].mountPath"],
    ),
    "two volumes with one name": spec(
        "volumes[1].name", volumes=[{"name": "v", "emptyDir": {}}] * 2
    ),
    "a volume with two sources": volume("secret", emptyDir={}, secret={"secretName": "a"}),
    "a Secret volume without a name": volume("secret.secretName", secret={}),
    "a ConfigMap volume without a name": volume("configMap.name", configMap={}),
    "a claim volume without a name": volume(
        "persistentVolumeClaim.claimName", persistentVolumeClaim={}
    ),
    "a host path volume without a path": volume("hostPath.path", hostPath={}),
    "an unknown host path type": volume("hostPath.type", hostPath={"path": "/a", "type": "Odd"}),
    "a volume item without key and path": spec(
        "volumes[0].secret.items[0].key",
        "volumes[0].secret.items[0].path",
        volumes=[{"name": "v", "secret": {"secretName": "a", "items": [{}]}}],
    ),
    "an unknown toleration effect": toleration("effect", key="a", effect="Odd"),
    "an unknown toleration operator": toleration("operator", key="a", operator="Odd"),
    "a toleration value without a key": toleration("operator", value="b"),
    "an Exists toleration with a value": toleration(
        "operator", key="a", operator="Exists", value="b"
    ),
    "toleration seconds for NoSchedule": toleration(
        "effect", key="a", effect="NoSchedule", tolerationSeconds=5
    ),
    "a toleration key with a blank": toleration("key", key="a b", operator="Exists"),
    "a node selector with a blank": spec("nodeSelector", nodeSelector={"a": "b c"}),
    "an unknown affinity operator": node_term("operator", operator="Odd"),
    "an In affinity without values": node_term("values", operator="In", values=[]),
    "an Exists affinity with values": node_term("values", operator="Exists", values=["b"]),
    "a Gt affinity with two values": node_term("values", operator="Gt", values=["1", "2"]),
    "an affinity without terms": spec(
        f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms",
        affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}},
    ),
    "an affinity without a weight": spec(
        f"affinity.nodeAffinity.{PREFERRED}[0].weight",
        affinity={"nodeAffinity": {PREFERRED: [{"weight": 0, "preference": {}}]}},
    ),
    "an anti-affinity without a topology key": apart("topologyKey", labelSelector={}),
    "an anti-affinity with an unknown operator": apart(
        "labelSelector.matchExpressions[0].operator",
        topologyKey="zone",
        labelSelector={"matchExpressions": [{"key": "a", "operator": "Odd"}]},
    ),
    "an unknown topology spread": spec(
        "topologySpreadConstraints[0].whenUnsatisfiable",
        topologySpreadConstraints=[
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "Odd"}
        ],
    ),
    "an unknown DNS policy": spec("dnsPolicy", dnsPolicy="Odd"),
    "a deadline of 0 seconds": spec("activeDeadlineSeconds", activeDeadlineSeconds=0),
    "a host name with an underscore": spec("hostname", hostname="A_b"),
    "a readiness gate with a blank": spec(
        "readinessGates[0].conditionType", readinessGates=[{"conditionType": "a b"}]
    ),
    "no image": main("image", image=""),
    "a host port of 70000": main(
        "ports[0].hostPort", ports=[{"containerPort": 80, "hostPort": 70000}]
    ),
    "an unknown port protocol": main(
        "ports[0].protocol", ports=[{"containerPort": 80, "protocol": "ODD"}]
    ),
    "two ports with one name": main(
        "ports[1].name",
        ports=[{"name": "a", "containerPort": 80}, {"name": "a", "containerPort": 81}],
    ),
    "an unknown resource": main(
        "resources.limits[odd]",
        "resources.requests[odd]",
        resources={"limits": {"odd": "1"}},
    ),
    "a GPU request without a limit": main(
        "resources.limits", resources={"requests": {"nvidia.com/gpu": "1"}}
    ),
    "fewer GPUs than the limit": main(
        "resources.requests",
        resources={"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}},
    ),
    "an unknown termination message policy": main(
        "terminationMessagePolicy", terminationMessagePolicy="Odd"
    ),
    "a variable from an unknown field": env(
        "fieldRef.fieldPath", fieldRef={"fieldPath": "spec.odd"}
    ),
    "a variable from a ConfigMap without key": env(
        "configMapKeyRef.key", configMapKeyRef={"name": "a"}
    ),
    "envFrom without a source": main("envFrom", envFrom=[{}]),
    "a user of -1": main("securityContext.runAsUser", securityContext={"runAsUser": -1}),
    "an unknown seccomp profile": main(
        "securityContext.seccompProfile.type",
        securityContext={"seccompProfile": {"type": "Odd"}},
    ),
}


@pytest.mark.parametrize("case", list(PODS))
def test_a_pod_is_refused(http: Http, case: str) -> None:
    body, fields = PODS[case]

    reply = http("POST", POD.path("default") + "?dryRun=All", {**body, **KIND})

    assert (reply.status, reply.reason) == (422, "Invalid")
    assert set(reply.fields) == set(fields)


KIND = {"apiVersion": "v1", "kind": "Pod"}


def test_a_valid_pod_is_accepted(http: Http) -> None:
    entry = container(
        env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}}],
        envFrom=[{"configMapRef": {"name": "a"}}],
        lifecycle={"preStop": {"exec": {"command": ["a"]}}},
        livenessProbe={**TCP, "initialDelaySeconds": 0},
        ports=[{"name": "web", "containerPort": 80, "hostPort": 8080}],
        readinessProbe={"httpGet": {"port": "web"}},
        securityContext={"runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}},
        volumeMounts=[{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}],
    )
    expressions = [{"key": "a", "operator": "Gt", "values": ["1"]}]
    term = {"matchExpressions": expressions}
    body = pod(
        "one",
        entry,
        affinity={
            "nodeAffinity": {
                REQUIRED: {"nodeSelectorTerms": [term]},
                PREFERRED: [{"weight": 100, "preference": term}],
            }
        },
        initContainers=[{**container(), "name": "first"}],
        tolerations=[
            {"operator": "Exists"},
            {"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5},
        ],
        volumes=[
            {"name": "v", "secret": {"secretName": "a", "items": [{"key": "a", "path": "b"}]}}
        ],
    )

    reply = http("POST", POD.path("default") + "?dryRun=All", {**body, **KIND})

    assert reply.status == 201, reply.message
