"""Objects that a real API server refuses, chosen without a look at the simulator's code.

Sent as dry runs, so that nothing is left of one that is taken.
"""

from typing import Any

import pytest

from gpuplatform.kube.kinds import (
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    DEPLOYMENT,
    LEASE,
    NODE,
    PRIORITY_CLASS,
    SECRET,
    SERVICE,
    ResourceKind,
)
from tests.cluster.widgets import definition
from tests.cluster.world import Http, deployment

pytestmark = pytest.mark.cluster
SCHEMA = "spec.validation.openAPIV3Schema"
PROPERTY = f"{SCHEMA}.properties[a]"
Case = tuple[ResourceKind, dict[str, Any], int, list[str]]


def invalid(kind: ResourceKind, body: dict[str, Any], *fields: str) -> Case:
    return kind, {"metadata": {"name": "one"}, **body}, 422, list(fields)


def unreadable(kind: ResourceKind, body: dict[str, Any]) -> Case:
    return kind, {"metadata": {"name": "one"}, **body}, 400, []


def rolls(*fields: str, **changes: Any) -> Case:
    """A Deployment whose spec has these changes."""
    body = deployment("one")
    body["spec"] |= changes
    return invalid(DEPLOYMENT, body, *(f"spec.{field}" for field in fields))


def unavailable(value: object, surge: object = 0) -> Case:
    rolling = {"maxUnavailable": value, "maxSurge": surge}
    return rolls(
        "strategy.rollingUpdate.maxUnavailable",
        strategy={"type": "RollingUpdate", "rollingUpdate": rolling},
    )


def selects(field: str, **expression: Any) -> Case:
    selector = {"matchLabels": {"app": "one"}, "matchExpressions": [{"key": "a", **expression}]}
    return rolls("selector", f"selector.matchExpressions[0].{field}", selector=selector)


def defines(*fields: str, version: dict[str, Any] | None = None, **changes: Any) -> Case:
    """A definition whose spec, and only version, have these changes."""
    body = definition("refused.example.com")
    body["spec"]["versions"][0] |= version or {}
    body["spec"] |= changes
    return invalid(CUSTOM_RESOURCE_DEFINITION, body, *fields)


def describes(field: str, **schema: Any) -> Case:
    """A definition with this schema of the property `a`."""
    whole = {"type": "object", "properties": {"a": schema}}
    return defines(PROPERTY + field, version={"schema": {"openAPIV3Schema": whole}})


def tainted(fields: str, *taints: dict[str, str]) -> Case:
    return invalid(NODE, {"spec": {"taints": list(taints)}}, f"metadata.{fields}")


def owned(**reference: Any) -> Case:
    metadata = {"name": "one", "ownerReferences": [{"name": "a", "uid": "1", **reference}]}
    return invalid(CONFIG_MAP, {"metadata": metadata}, "metadata.ownerReferences")


VERSION: dict[str, Any] = definition("refused.example.com")["spec"]["versions"][0]
OBJECTS: dict[str, Case] = {
    "a Secret that is no base64": unreadable(SECRET, {"data": {"a": "%%%"}}),
    "binary data that is no base64": unreadable(CONFIG_MAP, {"binaryData": {"a": "?"}}),
    "a time that is none": unreadable(LEASE, {"spec": {"renewTime": "yesterday"}}),
    "a day that is none": unreadable(LEASE, {"spec": {"renewTime": "2026-02-30T00:00:00Z"}}),
    "seconds that are text": unreadable(LEASE, {"spec": {"leaseDurationSeconds": "5"}}),
    "a lease that changed hands -1 times": invalid(
        LEASE, {"spec": {"leaseTransitions": -1}}, "spec.leaseTransitions"
    ),
    "a Secret for a registry without its key": invalid(
        SECRET, {"type": "kubernetes.io/dockerconfigjson"}, "data[.dockerconfigjson]"
    ),
    "a Secret for TLS without its keys": invalid(
        SECRET, {"type": "kubernetes.io/tls"}, "data[tls.crt]", "data[tls.key]"
    ),
    "a Secret for a login without either": invalid(
        SECRET, {"type": "kubernetes.io/basic-auth"}, "data[password]", "data[username]"
    ),
    "one key as text and as bytes": invalid(
        CONFIG_MAP, {"data": {"a": "1"}, "binaryData": {"a": "MQ=="}}, "data[a]"
    ),
    "a ConfigMap over 1 MiB": invalid(CONFIG_MAP, {"data": {"a": "x" * (1024**2 + 1)}}, "[]"),
    "an owner that is an event": owned(apiVersion="v1", kind="Event"),
    "a service of a type that is none": invalid(
        SERVICE, {"spec": {"type": "Odd", "ports": [{"port": 80}]}}, "spec.type"
    ),
    "a service elsewhere that says not where": invalid(
        SERVICE, {"spec": {"type": "ExternalName"}}, "spec.externalName"
    ),
    "a service of an affinity that is none": invalid(
        SERVICE,
        {"spec": {"sessionAffinity": "Odd", "ports": [{"port": 80}]}},
        "spec.sessionAffinity",
    ),
    "two service ports of one number": invalid(
        SERVICE,
        {"spec": {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 80}]}},
        "spec.ports[1]",
    ),
    "a priority class of the system's": invalid(
        PRIORITY_CLASS, {"metadata": {"name": "system-odd"}, "value": 5}, "metadata.name"
    ),
    "a preemption that is none": invalid(
        PRIORITY_CLASS, {"value": 5, "preemptionPolicy": "Odd"}, "preemptionPolicy"
    ),
    "a taint of an effect that is none": tainted(
        "taints[0].effect", {"key": "a", "effect": "Odd"}
    ),
    "one taint twice": tainted("taints[1]", *[{"key": "a", "effect": "NoSchedule"}] * 2),
    "less than no replicas": rolls("replicas", replicas=-1),
    "less than no history": rolls("revisionHistoryLimit", revisionHistoryLimit=-1),
    "a deadline before pods count": rolls(
        "progressDeadlineSeconds", minReadySeconds=10, progressDeadlineSeconds=5
    ),
    "a rollout that may do nothing": unavailable(0),
    "more than all unavailable": unavailable("110%"),
    "a share that is none": unavailable("odd"),
    "a selector of an operator that is none": selects("operator", operator="Odd"),
    "a selector of none of the values": selects("values", operator="In", values=[]),
    "a definition of another name": defines("metadata.name", group="other.example.com"),
    "a definition without versions": defines(
        "spec.versions", "status.storedVersions", versions=[]
    ),
    "a definition that stores no version": defines(
        "spec.versions", "status.storedVersions", version={"storage": False}
    ),
    "a definition of one version twice": defines(
        "spec.versions", versions=[VERSION, {**VERSION, "storage": False}]
    ),
    "a version in capitals": defines(
        "spec.version", "spec.versions[0].name", version={"name": "V_1"}
    ),
    "a definition that keeps everything": defines(
        "spec.preserveUnknownFields", preserveUnknownFields=True
    ),
    "a kind with an underscore": defines(
        "spec.names.kind",
        "spec.names.listKind",
        names={"plural": "widgets", "singular": "widget", "kind": "widget_"},
    ),
    "a column without path": defines(
        "spec.additionalPrinterColumns[0].JSONPath",
        version={"additionalPrinterColumns": [{"name": "A", "type": "string"}]},
    ),
    "a column of a type that is none": defines(
        "spec.additionalPrinterColumns[0].type",
        version={"additionalPrinterColumns": [{"name": "A", "type": "odd", "jsonPath": ".a"}]},
    ),
    "a scale that is no path": defines(
        "spec.subresources.scale.specReplicasPath",
        version={
            "subresources": {
                "scale": {"specReplicasPath": "x", "statusReplicasPath": ".status.replicas"}
            }
        },
    ),
    "a default of another type": describes(".default", type="integer", default="x"),
    "a pattern that is none": describes(".pattern", type="string", pattern="("),
    "a list of nothing": describes(".items", type="array"),
}


@pytest.mark.parametrize("case", list(OBJECTS))
def test_an_object_is_refused(http: Http, case: str) -> None:
    kind, body, status, fields = OBJECTS[case]
    whole = {"apiVersion": kind.api_version, "kind": kind.kind, **body}

    reply = http("POST", kind.path("default" if kind.namespaced else None) + "?dryRun=All", whole)

    reason = {400: "BadRequest", 422: "Invalid"}[status]
    assert (reply.status, reply.reason) == (status, reason), reply.message
    assert sorted(set(reply.fields)) == fields
