"""The guarantees of the platform for stock pools on an API server."""

import copy

import pytest

from gpuplatform.kube.kinds import DEPLOYMENT, POD, SERVICE, STOCK_POOL, Manifest
from gpuplatform.planning.ownership import POOL_LABEL
from gpuplatform.workloads.causes import StartupCause
from inventory.reconcile import compare_all, delete_leftovers
from tests.cluster.pools import Pools

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]

HTTP = {"ports": [{"name": "http", "port": 8080}]}


def live(pools: Pools, name: str) -> Manifest:
    """Return the pool's Deployment."""
    found = pools.cluster.get(DEPLOYMENT, f"pool-{name}", namespace=pools.namespace)
    assert found is not None
    return found


def test_a_pool_becomes_ready_with_what_was_asked_for(pools: Pools) -> None:
    operation = pools.create("ready", gpu=1, memory="1536Mi", replicas=2, template=HTTP)

    row = pools.settle("ready", "Ready")

    container = live(pools, "ready")["spec"]["template"]["spec"]["containers"][0]
    assert operation.phase == "Succeeded"
    assert (row.available_replicas, row.allocated_replicas) == (2, 0)
    assert row.observed_generation == row.generation
    assert row.service_name == "pool-ready"
    assert container["resources"]["limits"] == {"memory": "1536Mi", "nvidia.com/gpu": "1"}
    service = pools.cluster.get(SERVICE, "pool-ready", namespace=pools.namespace)
    assert service is not None
    assert service["spec"]["ports"][0]["port"] == 8080


def test_a_settled_pool_changes_nothing_in_the_cluster(pools: Pools) -> None:
    pools.create("settled", gpu=1, template=HTTP)
    pools.settle("settled", "Ready")
    pools.reconcile("settled")
    before = [live(pools, "settled"), pools.row("settled").resource_version]

    pools.reconcile("settled")
    due = compare_all(pools.cluster)

    assert [live(pools, "settled"), pools.row("settled").resource_version] == before
    assert pools.row("settled").pk not in due


def test_drift_in_fields_of_ours_is_put_back_and_others_are_left(pools: Pools) -> None:
    pools.create("drift", gpu=1)
    pools.settle("drift", "Ready")
    drifted = {
        "metadata": {"annotations": {"theirs": "stays"}},
        "spec": {"replicas": 0, "template": {"spec": {"priorityClassName": ""}}},
    }

    pools.cluster.merge_patch(DEPLOYMENT, "pool-drift", drifted, namespace=pools.namespace)
    due = compare_all(pools.cluster)
    pools.settle("drift", "Ready")

    found = live(pools, "drift")
    assert pools.row("drift").pk in due
    assert found["spec"]["replicas"] == 1
    assert found["spec"]["template"]["spec"]["priorityClassName"] == "gpu-platform-stock"
    assert found["metadata"]["annotations"]["theirs"] == "stays"


def test_a_deployment_that_kubectl_deletes_is_made_again(pools: Pools) -> None:
    pools.create("again", gpu=1)
    pools.settle("again", "Ready")
    before = live(pools, "again")["metadata"]["uid"]

    pools.cluster.delete(DEPLOYMENT, "pool-again", namespace=pools.namespace)
    pools.reconcile("again")
    pools.settle("again", "Ready")

    assert live(pools, "again")["metadata"]["uid"] != before


def test_a_service_comes_and_goes_with_the_ports(pools: Pools) -> None:
    pools.create("ports", template=HTTP)
    pools.settle("ports", "Ready")

    patch = {"spec": {"template": None}}
    pools.cluster.merge_patch(STOCK_POOL, "ports", patch, namespace=pools.namespace)
    pools.settle("ports", "Ready")

    assert pools.cluster.get(SERVICE, "pool-ports", namespace=pools.namespace) is None
    assert pools.row("ports").service_name == ""


def test_a_deployment_of_somebody_else_is_left_as_it_is(pools: Pools) -> None:
    theirs = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "pool-taken", "namespace": pools.namespace},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "theirs"}},
            "template": {
                "metadata": {"labels": {"app": "theirs"}},
                "spec": {"containers": [{"name": "c", "image": "busybox:1.36"}]},
            },
        },
    }
    pools.cluster.create(DEPLOYMENT, theirs)
    before = copy.deepcopy(live(pools, "taken")["spec"])

    pools.create("taken", gpu=1)
    row = pools.settle("taken", "Failed", "NameConflict")
    pools.delete("taken")
    pools.reconcile("taken")

    assert "Deployment 'pool-taken'" in row.message
    assert live(pools, "taken")["spec"] == before
    assert "ownerReferences" not in live(pools, "taken")["metadata"]


def test_a_name_conflict_clears_when_the_other_object_goes(pools: Pools) -> None:
    taken = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "pool-freed", "namespace": pools.namespace},
        "spec": {"ports": [{"port": 80}]},
    }
    pools.cluster.create(SERVICE, taken)
    pools.create("freed", template=HTTP)
    pools.settle("freed", "Failed", "NameConflict")

    pools.cluster.delete(SERVICE, "pool-freed", namespace=pools.namespace)
    row = pools.settle("freed", "Ready")

    assert row.service_name == "pool-freed"


def test_deleting_a_pool_takes_what_it_owns_and_closes_its_row(pools: Pools) -> None:
    pools.create("gone", gpu=1, template=HTTP)
    pools.settle("gone", "Ready")

    operation = pools.delete("gone")
    pools.reconcile("gone")

    def nothing_left() -> bool:
        selector = f"{POOL_LABEL}=gone"
        kinds = (DEPLOYMENT, SERVICE, POD)
        lists = [
            pools.cluster.list(kind, namespace=pools.namespace, label_selector=selector)
            for kind in kinds
        ]
        return not any(listing.items for listing in lists)

    pools.wait(nothing_left, lambda: "something of the pool is left")
    assert operation.phase == "Succeeded"
    assert pools.row("gone").deleted_at is not None


@pytest.mark.usefixtures("later")
def test_an_image_that_cannot_be_pulled_is_reported_with_the_cause(pools: Pools) -> None:
    pools.create("pull", image="registry.example.invalid/team/app:1")
    row = pools.settle("pull", "Failed", "PodStartupFailed")

    patch = {"spec": {"image": "busybox:1.36"}}
    pools.cluster.merge_patch(STOCK_POOL, "pull", patch, namespace=pools.namespace)
    healed = pools.settle("pull", "Ready")

    assert row.cause == StartupCause.IMAGE_PULL_FAILED
    assert "registry.example.invalid/team/app:1" in row.message
    assert "no such host" in row.message
    assert (healed.reason, healed.cause) == ("DeploymentReady", "")


def test_a_crash_loop_shows_the_last_termination(pools: Pools) -> None:
    pools.create("crash", template={"command": ["sh", "-c", "exit 3"]})

    row = pools.settle("crash", "Failed", "PodStartupFailed")

    assert row.cause == StartupCause.CONTAINER_EXITED
    assert "exit code 3" in row.message


def test_more_gpus_than_exist_are_reported_with_the_message_of_the_scheduler(pools: Pools) -> None:
    pools.create("large", gpu=64)

    row = pools.settle("large", "Failed", "PodStartupFailed")

    assert row.cause == StartupCause.UNSCHEDULABLE
    assert "Insufficient nvidia.com/gpu" in row.message


def test_a_hand_made_resource_that_breaks_a_rule_fails_and_heals_by_an_edit(
    pools: Pools,
) -> None:
    # The API server does not require a program in a command.
    pools.by_hand("hand", {"specName": "g1.1", "replicas": 1, "template": {"command": [" "]}})
    row = pools.settle("hand", "Failed", "InvalidSpec")
    made = pools.cluster.get(DEPLOYMENT, "pool-hand", namespace=pools.namespace)

    patch = {"spec": {"template": None}}
    pools.cluster.merge_patch(STOCK_POOL, "hand", patch, namespace=pools.namespace)
    healed = pools.settle("hand", "Ready")

    assert "spec.template.command" in row.message
    assert made is None
    assert healed.operation is None


def test_a_pool_of_the_same_name_made_by_hand_is_a_name_conflict(pools: Pools) -> None:
    pools.cluster.create(
        STOCK_POOL,
        {
            "apiVersion": STOCK_POOL.api_version,
            "kind": STOCK_POOL.kind,
            "metadata": {"name": "first", "namespace": pools.namespace},
            "spec": {"specName": "theirs", "replicas": 0},
        },
    )

    operation = pools.create("first", replicas=5)

    assert (operation.phase, operation.error_code) == ("Failed", "name_conflict")
    assert pools.row("first").spec_name == "theirs"
    assert pools.row("first").operation is None


def test_what_a_late_worker_leaves_behind_is_deleted_and_nothing_else(pools: Pools) -> None:
    pools.create("late", replicas=0)
    original = pools.cluster.get(STOCK_POOL, "late", namespace=pools.namespace)
    assert original is not None
    pools.delete("late")
    pools.reconcile("late")
    late = {key: original[key] for key in ("apiVersion", "kind", "spec")}
    metadata = original["metadata"]
    late["metadata"] = {key: metadata[key] for key in ("name", "namespace", "annotations")}
    pools.cluster.create(STOCK_POOL, late)
    pools.create("other", replicas=0)

    delete_leftovers(pools.cluster)

    assert pools.cluster.get(STOCK_POOL, "late", namespace=pools.namespace) is None
    assert pools.cluster.get(STOCK_POOL, "other", namespace=pools.namespace) is not None
