"""Objects that a real API server refuses, with the fields of the error.

They are sent as dry runs, so an accepted one is not stored.
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
    """Return a Deployment whose spec has these changes."""
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
    """Return a definition whose spec and version have these changes."""
    body = definition("refused.example.com")
    body["spec"]["versions"][0] |= version or {}
    body["spec"] |= changes
    return invalid(CUSTOM_RESOURCE_DEFINITION, body, *fields)


def describes(field: str, **schema: Any) -> Case:
    """Return a definition with this schema of the property `a`."""
    whole = {"type": "object", "properties": {"a": schema}}
    return defines(PROPERTY + field, version={"schema": {"openAPIV3Schema": whole}})


def tainted(fields: str, *taints: dict[str, str]) -> Case:
    return invalid(NODE, {"spec": {"taints": list(taints)}}, f"metadata.{fields}")


def owned(**reference: Any) -> Case:
    metadata = {"name": "one", "ownerReferences": [{"name": "a", "uid": "1", **reference}]}
    return invalid(CONFIG_MAP, {"metadata": metadata}, "metadata.ownerReferences")


VERSION: dict[str, Any] = definition("refused.example.com")["spec"]["versions"][0]
OBJECTS: dict[str, Case] = {
    "a Secret with invalid base64": unreadable(SECRET, {"data": {"a": "%%%"}}),
    "binary data with invalid base64": unreadable(CONFIG_MAP, {"binaryData": {"a": "?"}}),
    "an invalid time": unreadable(LEASE, {"spec": {"renewTime": "yesterday"}}),
    "an invalid date": unreadable(LEASE, {"spec": {"renewTime": "2026-02-30T00:00:00Z"}}),
    "seconds that are text": unreadable(LEASE, {"spec": {"leaseDurationSeconds": "5"}}),
    "a lease with -1 transitions": invalid(
        LEASE, {"spec": {"leaseTransitions": -1}}, "spec.leaseTransitions"
    ),
    "a registry Secret without its key": invalid(
        SECRET, {"type": "kubernetes.io/dockerconfigjson"}, "data[.dockerconfigjson]"
    ),
    "a TLS Secret without its keys": invalid(
        SECRET, {"type": "kubernetes.io/tls"}, "data[tls.crt]", "data[tls.key]"
    ),
    "a basic-auth Secret without keys": invalid(
        SECRET, {"type": "kubernetes.io/basic-auth"}, "data[password]", "data[username]"
    ),
    "a key in data and binaryData": invalid(
        CONFIG_MAP, {"data": {"a": "1"}, "binaryData": {"a": "MQ=="}}, "data[a]"
    ),
    "a ConfigMap over 1 MiB": invalid(CONFIG_MAP, {"data": {"a": "x" * (1024**2 + 1)}}, "[]"),
    "an Event as an owner": owned(apiVersion="v1", kind="Event"),
    "an unknown service type": invalid(
        SERVICE, {"spec": {"type": "Odd", "ports": [{"port": 80}]}}, "spec.type"
    ),
    "an ExternalName service without a name": invalid(
        SERVICE, {"spec": {"type": "ExternalName"}}, "spec.externalName"
    ),
    "an unknown session affinity": invalid(
        SERVICE,
        {"spec": {"sessionAffinity": "Odd", "ports": [{"port": 80}]}},
        "spec.sessionAffinity",
    ),
    "two service ports with one number": invalid(
        SERVICE,
        {"spec": {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 80}]}},
        "spec.ports[1]",
    ),
    "a priority class with a system name": invalid(
        PRIORITY_CLASS, {"metadata": {"name": "system-odd"}, "value": 5}, "metadata.name"
    ),
    "an unknown preemption policy": invalid(
        PRIORITY_CLASS, {"value": 5, "preemptionPolicy": "Odd"}, "preemptionPolicy"
    ),
    "an unknown taint effect": tainted("taints[0].effect", {"key": "a", "effect": "Odd"}),
    "a duplicate taint": tainted("taints[1]", *[{"key": "a", "effect": "NoSchedule"}] * 2),
    "negative replicas": rolls("replicas", replicas=-1),
    "a negative history limit": rolls("revisionHistoryLimit", revisionHistoryLimit=-1),
    "a progress deadline before pods are available": rolls(
        "progressDeadlineSeconds", minReadySeconds=10, progressDeadlineSeconds=5
    ),
    "a rollout without surge and unavailable pods": unavailable(0),
    "more than 100 % unavailable": unavailable("110%"),
    "an invalid percentage": unavailable("odd"),
    "an unknown selector operator": selects("operator", operator="Odd"),
    "an In selector without values": selects("values", operator="In", values=[]),
    "a definition with another name": defines("metadata.name", group="other.example.com"),
    "a definition without versions": defines(
        "spec.versions", "status.storedVersions", versions=[]
    ),
    "a definition without a storage version": defines(
        "spec.versions", "status.storedVersions", version={"storage": False}
    ),
    "a definition with a duplicate version": defines(
        "spec.versions", versions=[VERSION, {**VERSION, "storage": False}]
    ),
    "a version in capitals": defines(
        "spec.version", "spec.versions[0].name", version={"name": "V_1"}
    ),
    "a definition with preserveUnknownFields": defines(
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
    "an unknown column type": defines(
        "spec.additionalPrinterColumns[0].type",
        version={"additionalPrinterColumns": [{"name": "A", "type": "odd", "jsonPath": ".a"}]},
    ),
    "an invalid scale path": defines(
        "spec.subresources.scale.specReplicasPath",
        version={
            "subresources": {
                "scale": {"specReplicasPath": "x", "statusReplicasPath": ".status.replicas"}
            }
        },
    ),
    "a default with another type": describes(".default", type="integer", default="x"),
    "an invalid pattern": describes(".pattern", type="string", pattern="("),
    "a list without items": describes(".items", type="array"),
}


@pytest.mark.parametrize("case", list(OBJECTS))
def test_an_object_is_refused(http: Http, case: str) -> None:
    kind, body, status, fields = OBJECTS[case]
    whole = {"apiVersion": kind.api_version, "kind": kind.kind, **body}

    reply = http("POST", kind.path("default" if kind.namespaced else None) + "?dryRun=All", whole)

    reason = {400: "BadRequest", 422: "Invalid"}[status]
    assert (reply.status, reply.reason) == (status, reason), reply.message
    assert sorted(set(reply.fields)) == fields
