"""Deployments, their ReplicaSets and pods, and Services."""

import pytest

from gpuplatform.kube.kinds import DEPLOYMENT, POD, REPLICA_SET, SERVICE, Manifest, ResourceKind
from tests.cluster.world import (
    MERGE,
    World,
    condition,
    container,
    deployment,
    gpus,
    is_ready,
    pod,
)

pytestmark = pytest.mark.cluster
ENDPOINTS = ResourceKind("", "v1", "Endpoints", "endpoints")


def available(world: World, name: str) -> Manifest:
    def probe() -> Manifest | None:
        found = world.get(DEPLOYMENT, name)
        status, spec = found.get("status") or {}, found["spec"]
        settled = (
            status.get("observedGeneration") == found["metadata"]["generation"]
            and status.get("updatedReplicas", 0) == spec["replicas"]
            and status.get("availableReplicas", 0) == spec["replicas"]
            and status.get("replicas", 0) == spec["replicas"]
        )
        return found if settled else None

    return world.until(probe)


def pods(world: World, app: str) -> list[Manifest]:
    return world.list(POD, f"app={app}")


def test_a_deployment_gets_its_pods_ready(world: World) -> None:
    world.create(DEPLOYMENT, deployment("web", container(resources=gpus(1)), replicas=2))

    status = available(world, "web")["status"]

    assert (status["replicas"], status["readyReplicas"], status["updatedReplicas"]) == (2, 2, 2)
    assert all(is_ready(item) for item in pods(world, "web"))


def test_an_available_deployment_has_the_condition(world: World) -> None:
    world.create(DEPLOYMENT, deployment("web"))

    found = available(world, "web")
    progressing = world.until(
        lambda: (
            entry
            if (entry := condition(world.get(DEPLOYMENT, "web"), "Progressing")).get("reason")
            == "NewReplicaSetAvailable"
            else None
        )
    )

    assert condition(found, "Available")["status"] == "True"
    assert condition(found, "Available")["reason"] == "MinimumReplicasAvailable"
    assert progressing["status"] == "True"


def test_a_pod_has_owner_references_up_to_the_deployment(world: World) -> None:
    made = world.create(DEPLOYMENT, deployment("web"))
    available(world, "web")

    replica_set = world.list(REPLICA_SET, "app=web")[0]
    owned = pods(world, "web")[0]

    of_set = replica_set["metadata"]["ownerReferences"][0]
    of_pod = owned["metadata"]["ownerReferences"][0]
    assert (of_set["uid"], of_set["controller"]) == (made["metadata"]["uid"], True)
    assert (of_pod["uid"], of_pod["controller"]) == (replica_set["metadata"]["uid"], True)
    assert of_pod["blockOwnerDeletion"] is True


def test_pods_and_replica_sets_have_the_hash_of_the_template(world: World) -> None:
    world.create(DEPLOYMENT, deployment("web"))
    available(world, "web")

    replica_set = world.list(REPLICA_SET, "app=web")[0]["metadata"]
    owned = pods(world, "web")[0]["metadata"]

    number = replica_set["labels"]["pod-template-hash"]
    assert replica_set["name"] == f"web-{number}"
    assert owned["labels"]["pod-template-hash"] == number
    assert owned["name"].startswith(f"web-{number}-")


def test_recreate_creates_no_pod_before_the_old_one_has_ended(world: World) -> None:
    stubborn = [{"name": "SIMULATOR_SIGTERM", "value": "ignore"}]
    manifest = deployment("web", container(env=stubborn))
    manifest["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 2
    world.create(DEPLOYMENT, manifest)
    available(world, "web")
    old = pods(world, "web")[0]["metadata"]["uid"]
    version = world.cluster.list(POD, namespace=world.namespace).resource_version

    entry = container(image="registry.example/app:2", env=stubborn)
    world.apply(DEPLOYMENT, deployment("web", entry), force=True)

    end = ""
    for event in world.cluster.watch(
        POD, namespace=world.namespace, resource_version=version, timeout_seconds=20
    ):
        if event.object["metadata"].get("uid") == old:
            end = "gone" if event.type == "DELETED" else event.object["status"]["phase"]
        elif event.type == "ADDED":
            break
    assert end in {"gone", "Failed", "Succeeded"}


def test_a_change_outside_of_the_template_starts_no_rollout(world: World) -> None:
    world.create(DEPLOYMENT, deployment("web"))
    available(world, "web")
    before = {item["metadata"]["uid"] for item in pods(world, "web")}

    world.patch(DEPLOYMENT, "web", {"metadata": {"labels": {"more": "1"}}})
    world.patch(DEPLOYMENT, "web", {"spec": {"minReadySeconds": 1}})
    available(world, "web")

    assert {item["metadata"]["uid"] for item in pods(world, "web")} == before


def test_a_deleted_pod_is_replaced(world: World) -> None:
    world.create(DEPLOYMENT, deployment("web"))
    available(world, "web")
    name = pods(world, "web")[0]["metadata"]["name"]

    world.delete(POD, name)

    world.gone(POD, name)
    world.until(lambda: any(is_ready(item) for item in pods(world, "web")))


def test_deleting_a_deployment_deletes_its_pods(world: World) -> None:
    world.create(DEPLOYMENT, deployment("web"))
    available(world, "web")

    world.delete(DEPLOYMENT, "web")

    world.until(lambda: not pods(world, "web") and not world.list(REPLICA_SET, "app=web"))


def test_scaling_to_zero_deletes_all_pods(world: World) -> None:
    world.create(DEPLOYMENT, deployment("web", replicas=2))
    available(world, "web")

    world.patch(DEPLOYMENT, "web", {"spec": {"replicas": 0}})

    available(world, "web")
    world.until(lambda: not pods(world, "web"))


def test_the_scale_subresource_reads_and_writes_replicas(world: World) -> None:
    world.create(DEPLOYMENT, deployment("web", replicas=1))
    path = world.path(DEPLOYMENT, "web", "scale")

    scale = world.http("GET", path).body
    reply = world.http("PATCH", path, {"spec": {"replicas": 0}}, MERGE)

    assert (scale["kind"], scale["spec"]["replicas"]) == ("Scale", 1)
    assert scale["status"]["selector"] == "app=web"
    assert reply.body["spec"].get("replicas", 0) == 0
    assert world.get(DEPLOYMENT, "web")["spec"]["replicas"] == 0


def test_absent_replicas_are_one(world: World) -> None:
    manifest = deployment("web")
    del manifest["spec"]["replicas"]

    assert world.create(DEPLOYMENT, manifest)["spec"]["replicas"] == 1


def test_negative_replicas_are_invalid(world: World) -> None:
    reply = world.http("POST", world.path(DEPLOYMENT), deployment("web", replicas=-1))

    assert (reply.status, reply.fields) == (422, ["spec.replicas"])


def test_a_selector_must_match_its_template(world: World) -> None:
    manifest = deployment("web", selector={"matchLabels": {"app": "other"}})

    reply = world.http("POST", world.path(DEPLOYMENT), manifest)

    assert (reply.status, reply.fields) == (422, ["spec.template.metadata.labels"])
    assert "`selector` does not match template `labels`" in reply.message


def test_a_template_without_image_is_invalid(world: World) -> None:
    reply = world.http("POST", world.path(DEPLOYMENT), deployment("web", {"name": "main"}))

    assert (reply.status, reply.fields) == (422, ["spec.template.spec.containers[0].image"])


def test_a_bad_quantity_is_a_bad_request(world: World) -> None:
    entry = container(resources={"limits": {"memory": "lots"}})

    reply = world.http("POST", world.path(DEPLOYMENT), deployment("web", entry))

    assert (reply.status, reply.reason) == (400, "BadRequest")
    assert "quantities must match the regular expression" in reply.message


def test_a_deployment_without_progress_has_the_condition(world: World) -> None:
    entry = container(image="example.invalid/app:1")
    world.create(DEPLOYMENT, deployment("web", entry, progressDeadlineSeconds=2))

    found = world.until(
        lambda: (
            entry
            if (entry := condition(world.get(DEPLOYMENT, "web"), "Progressing")).get("status")
            == "False"
            else None
        )
    )

    assert found["reason"] == "ProgressDeadlineExceeded"
    assert "has timed out progressing" in found["message"]


def test_the_spec_of_a_pod_is_immutable(world: World) -> None:
    world.create(POD, pod("one", nodeName="gpu-node-1"))
    patch = {"spec": {"containers": [container("sleep", "1")]}}

    reply = world.http("PATCH", world.path(POD, "one"), patch, MERGE)

    assert (reply.status, reply.reason, reply.fields) == (422, "Invalid", ["spec"])
    assert "pod updates may not change fields other than" in reply.message


def test_a_service_has_an_address(world: World) -> None:
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    spec = {"selector": {"app": "web"}, "ports": ports}

    made = world.create(SERVICE, {"metadata": {"name": "web"}, "spec": spec})

    assert made["spec"]["type"] == "ClusterIP"
    assert made["spec"]["clusterIP"].startswith("10.96.")
    assert made["spec"]["ports"][0]["protocol"] == "TCP"


def test_the_endpoints_of_a_service_are_its_ready_pods(world: World) -> None:
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}
    world.create(SERVICE, {"metadata": {"name": "web"}, "spec": spec})
    world.create(DEPLOYMENT, deployment("web"))
    available(world, "web")
    address = pods(world, "web")[0]["status"]["podIP"]

    def addresses() -> list[str]:
        found = world.find(ENDPOINTS, "web") or {}
        return [
            entry["ip"]
            for subset in found.get("subsets") or []
            for entry in subset.get("addresses") or []
        ]

    assert world.until(addresses) == [address]
