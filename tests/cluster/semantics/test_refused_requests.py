"""Options and changes that a real API server refuses, with the fields of the error.

For some of them the real server returns 500 without a reason.
"""

from typing import Any, NamedTuple

import pytest

from gpuplatform.kube.kinds import CONFIG_MAP, DEPLOYMENT, POD, SECRET, ResourceKind
from tests.cluster.world import APPLY, MERGE, Http, World, container, deployment, pod

pytestmark = pytest.mark.cluster
JSON = "application/json"
STRATEGIC = "application/strategic-merge-patch+json"
MATCH = "resourceVersionMatch"


class Answer(NamedTuple):
    """The expected error, with one cause for each field."""

    status: int
    reason: str
    fields: list[str]


def invalid(*fields: str) -> Answer:
    return Answer(422, "Invalid", list(fields))


BAD = Answer(400, "BadRequest", [])
BROKEN = Answer(500, "", [])

LISTS = {
    f"{MATCH}=Exact": invalid(MATCH),
    f"{MATCH}=Odd&resourceVersion=5": invalid(MATCH),
    f"{MATCH}=Exact&resourceVersion=0": invalid(MATCH),
    f"watch=1&{MATCH}=Exact&resourceVersion=5": invalid(MATCH, MATCH),
    "watch=1&sendInitialEvents=true": invalid(MATCH),
    "watch=1&resourceVersion=abc": BROKEN,
    "watch=1&timeoutSeconds=abc": BAD,
    "resourceVersion=abc": BAD,
    "limit=abc": BAD,
    "continue=abc": BAD,
    "labelSelector=a%20in%20(": BAD,
    "fieldSelector=data.a%3Db": BAD,
}


@pytest.mark.parametrize("query", list(LISTS))
def test_a_list_is_refused(http: Http, query: str) -> None:
    reply = http("GET", f"{CONFIG_MAP.path('default')}?{query}")

    assert (reply.status, reply.reason, reply.fields) == LISTS[query]


def test_a_negative_limit_is_no_limit(http: Http) -> None:
    assert http("GET", f"{CONFIG_MAP.path('default')}?limit=-1").status == 200


OPTIONS = {
    f"fieldManager={'a' * 129}": invalid("fieldManager"),
    "fieldManager=%00": invalid("fieldManager"),
    "dryRun=Some": invalid("dryRun"),
    "fieldValidation=Odd": invalid("fieldValidation"),
}


@pytest.mark.parametrize("query", list(OPTIONS), ids=lambda query: query[:20])
def test_options_of_a_create_are_refused(http: Http, query: str) -> None:
    body = {"metadata": {"name": "never"}}

    reply = http("POST", f"{CONFIG_MAP.path('default')}?{query}", body)

    assert (reply.status, reply.reason, reply.fields) == OPTIONS[query]


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ('{"metadata":{"name":"one"},"data":{"a":"1","a":"2"}}', 'duplicate field "data.a"'),
        ('{"metadata":{"name":"one"},"data":{},"data":{}}', 'duplicate field "data"'),
        ('{"metadata":{"name":"one","odd":1}}', 'unknown field "metadata.odd"'),
    ],
    ids=["a key twice", "a field twice", "an unknown field"],
)
def test_strict_validation_refuses_fields(http: Http, text: str, detail: str) -> None:
    path = f"{CONFIG_MAP.path('default')}?dryRun=All&fieldValidation="
    body = text.encode()

    reply = http("POST", path + "Strict", body)

    assert (reply.status, reply.reason) == (400, "BadRequest")
    assert reply.message.endswith(f"strict decoding error: {detail}")
    assert http("POST", path + "Ignore", body).status == 201


class Change(NamedTuple):
    """An existing object, a request for it, and the expected error."""

    kind: ResourceKind
    present: dict[str, Any]
    method: str
    path: str
    """The part of the path after that of the object."""
    body: object
    content_type: str
    answer: Answer


def merged(kind: ResourceKind, present: dict[str, Any], patch: object, answer: Answer) -> Change:
    return Change(kind, present, "PATCH", "", patch, MERGE, answer)


def put(kind: ResourceKind, path: str, body: dict[str, Any], answer: Answer) -> Change:
    present = deployment("one") if kind is DEPLOYMENT else {}
    metadata = {"name": "one", **body.get("metadata", {})}
    return Change(kind, present, "PUT", path, {**body, "metadata": metadata}, JSON, answer)


def deleted(path: str, body: object, answer: Answer) -> Change:
    return Change(CONFIG_MAP, {}, "DELETE", path, body, JSON, answer)


def strategic(entry: dict[str, Any]) -> Change:
    patch = {"spec": {"template": {"spec": {"containers": [entry]}}}}
    return Change(DEPLOYMENT, deployment("one"), "PATCH", "", patch, STRATEGIC, BROKEN)


def on_pod(method: str, path: str, body: object, answer: Answer) -> Change:
    present = pod("one", schedulerName="nobody")
    return Change(POD, present, method, path, body, JSON, answer)


FIXED = {"immutable": True, "data": {"a": "MQ=="}}
OTHER = {"metadata": {"name": "other"}}
CHANGES = {
    "a changed type of a Secret": merged(
        SECRET, {"type": "Opaque"}, {"type": "example.com/a"}, invalid("type")
    ),
    "a change of an immutable Secret": merged(
        SECRET, FIXED, {"data": {"a": "Mg=="}}, invalid("data")
    ),
    "a change of an immutable ConfigMap": merged(
        CONFIG_MAP, FIXED, {"binaryData": {"b": "MQ=="}}, invalid("binaryData")
    ),
    "a change of immutable to false": merged(
        CONFIG_MAP, FIXED, {"immutable": False}, invalid("immutable")
    ),
    "a change of the variables of a pod": merged(
        POD,
        pod("one", container(env=[{"name": "A", "value": "1"}])),
        {"spec": {"containers": [container(env=[{"name": "A", "value": "2"}])]}},
        invalid("spec"),
    ),
    "a change of the node of a pod": merged(
        POD, pod("one", nodeName="one"), {"spec": {"nodeName": "two"}}, invalid("spec")
    ),
    "a change of a selector": merged(
        DEPLOYMENT,
        deployment("one"),
        {"spec": {"selector": {"matchLabels": {"app": "two"}}}},
        invalid("spec.selector", "spec.template.metadata.labels"),
    ),
    "a change of the kind": merged(CONFIG_MAP, {}, {"kind": "Secret"}, invalid("patch")),
    "a change of the name": merged(CONFIG_MAP, {}, OTHER, BAD),
    "a merge patch that is a list": merged(CONFIG_MAP, {}, [1], BAD),
    "a truncated patch": merged(CONFIG_MAP, {}, b"{", BAD),
    "a forced merge patch": Change(
        CONFIG_MAP, {}, "PATCH", "?force=true", {}, MERGE, invalid("force")
    ),
    "an apply without a manager": Change(
        CONFIG_MAP, {}, "PATCH", "", {}, APPLY, invalid("fieldManager")
    ),
    "a strategic patch item without its key": strategic({"image": "a"}),
    "an unknown directive": strategic({"name": "main", "$patch": "odd"}),
    "another namespace": put(CONFIG_MAP, "", {"metadata": {"namespace": "default"}}, BAD),
    "an invalid version": put(CONFIG_MAP, "", {"metadata": {"resourceVersion": "abc"}}, BROKEN),
    "a scale of another object": put(DEPLOYMENT, "/scale", {"kind": "Scale", **OTHER}, BAD),
    "a scale of another kind": put(
        DEPLOYMENT, "/scale", {"apiVersion": "apps/v1", "kind": "Deployment"}, BAD
    ),
    "a negative scale": Change(
        DEPLOYMENT,
        deployment("one"),
        "PATCH",
        "/scale",
        {"spec": {"replicas": -1}},
        MERGE,
        invalid("spec.replicas"),
    ),
    "a deletion with orphanDependents and a policy": deleted(
        "",
        {"propagationPolicy": "Orphan", "orphanDependents": True},
        invalid("propagationPolicy"),
    ),
    "an unknown propagation policy": deleted(
        "?propagationPolicy=Odd", None, invalid("propagationPolicy")
    ),
    "deletion options of another kind": deleted("", {"apiVersion": "v1", "kind": "Pod"}, BAD),
    "an invalid grace period": deleted("?gracePeriodSeconds=abc", None, BAD),
    "a deletion of a status": Change(
        DEPLOYMENT,
        deployment("one"),
        "DELETE",
        "/status",
        None,
        JSON,
        Answer(405, "MethodNotAllowed", []),
    ),
    "a binding without a node": on_pod(
        "POST", "/binding", {"metadata": {"name": "one"}, "target": {}}, BROKEN
    ),
    "a binding without a name": on_pod("POST", "/binding", {"target": {"name": "one"}}, BAD),
    "an eviction of another pod": on_pod("POST", "/eviction", OTHER, BAD),
    "a negative number of log lines": on_pod(
        "GET", "/log?tailLines=-1", None, invalid("tailLines")
    ),
}
TYPES = {
    "/scale": ("autoscaling/v1", "Scale"),
    "/binding": ("v1", "Binding"),
    "/eviction": ("policy/v1", "Eviction"),
}


@pytest.mark.parametrize("case", list(CHANGES))
def test_a_change_is_refused(world: World, case: str) -> None:
    change = CHANGES[case]
    kind, body = change.kind, change.body
    world.create(kind, {**change.present, "metadata": {"name": "one"}})
    if isinstance(body, dict) and change.method in {"PUT", "POST"}:
        version, name = TYPES.get(change.path, (kind.api_version, kind.kind))
        body = {"apiVersion": version, "kind": name, **body}

    reply = world.http(
        change.method, world.path(kind, "one") + change.path, body, change.content_type
    )

    assert (reply.status, reply.reason, sorted(reply.fields)) == change.answer, reply.message


def test_a_status_with_more_ready_than_all_replicas_is_refused(world: World) -> None:
    world.create(DEPLOYMENT, {**deployment("one", replicas=0)})
    patch = {"status": {"replicas": 1, "readyReplicas": 0, "availableReplicas": 1}}

    reply = world.http("PATCH", world.path(DEPLOYMENT, "one", "status"), patch, MERGE)

    assert (reply.status, reply.fields) == (422, ["status.availableReplicas"])


def test_a_new_object_has_no_version(world: World) -> None:
    body = {"metadata": {"name": "one", "resourceVersion": "5"}}

    reply = world.http("POST", world.path(CONFIG_MAP), body)

    assert (reply.status, reply.reason) == (500, "")
    assert reply.message == "resourceVersion should not be set on objects to be created"


@pytest.mark.parametrize("priority", [5, -1])
def test_a_pods_priority_comes_from_its_class(world: World, priority: int) -> None:
    reply = world.http("POST", world.path(POD), pod("one", priority=priority))

    assert (reply.status, reply.reason) == (403, "Forbidden")
