"""Cases from users of comparable systems, for pools: foreign changes, long names, large lists."""

import copy
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from gpuplatform.formats.validations import VALIDATIONS
from gpuplatform.kube.client import PAGE_SIZE
from gpuplatform.kube.errors import ClusterRejected
from gpuplatform.kube.kinds import (
    CUSTOM_RESOURCE_DEFINITION,
    DEPLOYMENT,
    POD,
    SECRET,
    SERVICE,
    STOCK_POOL,
    Manifest,
    ResourceKind,
)
from gpuplatform.planning.ownership import POOL_LABEL, is_controlled_by
from inventory.core.crd import STOCK_POOL_CRD
from inventory.reconcile import compare_all
from tests.cluster.pools import Pools
from tests.fakes.fault_proxy import FaultProxy

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]

HTTP = {"ports": [{"name": "http", "port": 8080}]}
ENVS = [
    {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}},
    {"name": "EMPTY"},
]
LONGEST = 58
MANY = int(os.environ.get("GPUPLATFORM_TEST_PODS", "1100"))
MANAGED_BY = "app.kubernetes.io/managed-by"


def patch(pools: Pools, body: Manifest) -> None:
    pools.cluster.merge_patch(DEPLOYMENT, "pool-a", body, namespace=pools.namespace)


def secret(pools: Pools) -> Manifest:
    """Return the Secret that the pools' template refers to."""
    metadata = {"name": "hf", "namespace": pools.namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"token": "YQ=="}}


def other_image(pools: Pools) -> None:
    [container] = found(pools)["spec"]["template"]["spec"]["containers"]
    changed = [{**container, "image": "evil:1"}]
    patch(pools, {"spec": {"template": {"spec": {"containers": changed}}}})


def other_sources(pools: Pools) -> None:
    """Replace the sources of variables, as `kubectl set env` does."""
    [container] = found(pools)["spec"]["template"]["spec"]["containers"]
    source = {"secretKeyRef": {"name": "hf", "key": "token"}}
    changed = {
        "SPEC_NAME": {"name": "SPEC_NAME", "valueFrom": source},
        "TOKEN": {"name": "TOKEN", "value": "theirs"},
        "EMPTY": {"name": "EMPTY", "value": "theirs"},
    }
    env = [changed.get(one["name"], one) for one in container["env"]]
    patch(pools, {"spec": {"template": {"spec": {"containers": [{**container, "env": env}]}}}})


def no_pod(pools: Pools) -> None:
    for pod in pods(pools):
        pools.cluster.delete(POD, pod["metadata"]["name"], namespace=pools.namespace)


MEDDLING: dict[str, Callable[[Pools], object]] = {
    "scaled to 0": lambda pools: patch(pools, {"spec": {"replicas": 0}}),
    "scaled to 3": lambda pools: patch(pools, {"spec": {"replicas": 3}}),
    "another image": other_image,
    "values for sources and sources for values": other_sources,
    "a label removed": lambda pools: patch(pools, {"metadata": {"labels": {MANAGED_BY: None}}}),
    "its owner removed": lambda pools: patch(pools, {"metadata": {"ownerReferences": None}}),
    "the pods deleted": no_pod,
    "the Service deleted": lambda pools: pools.cluster.delete(
        SERVICE, "pool-a", namespace=pools.namespace
    ),
    "the Deployment deleted": lambda pools: pools.cluster.delete(
        DEPLOYMENT, "pool-a", namespace=pools.namespace
    ),
}


def found(pools: Pools, name: str = "a") -> Manifest:
    """Return the pool's Deployment."""
    deployment = pools.cluster.get(DEPLOYMENT, f"pool-{name}", namespace=pools.namespace)
    assert deployment is not None
    return deployment


def orphan(pools: Pools, kind: ResourceKind, name: str) -> None:
    """Delete an object without the objects that it owns."""
    place = {"namespace": pools.namespace}
    pools.cluster.delete(kind, name, propagation="Orphan", **place)
    pools.wait(lambda: pools.cluster.get(kind, name, **place) is None, lambda: f"{name} stays")


def pods(pools: Pools, name: str = "a") -> list[Manifest]:
    """Return the pool's pods."""
    selector = f"{POOL_LABEL}={name}"
    return pools.cluster.list(POD, namespace=pools.namespace, label_selector=selector).items


@pytest.mark.parametrize("what", MEDDLING)
def test_what_a_person_with_kubectl_changed_is_put_right(pools: Pools, what: str) -> None:
    pools.cluster.create(SECRET, secret(pools))
    pools.create("a", gpu=1, template={**HTTP, "envs": ENVS})
    pools.settle("a", "Ready")
    [container] = found(pools)["spec"]["template"]["spec"]["containers"]

    MEDDLING[what](pools)
    compare_all(pools.platform())
    pools.reconcile("a")

    def is_right() -> bool:
        row = pools.reconcile("a")
        deployment = pools.cluster.get(DEPLOYMENT, "pool-a", namespace=pools.namespace)
        return (
            deployment is not None
            and pools.cluster.get(SERVICE, "pool-a", namespace=pools.namespace) is not None
            and is_controlled_by(deployment, row.uid)
            and deployment["metadata"]["labels"].get(MANAGED_BY) == "gpu-platform"
            and deployment["spec"]["replicas"] == 1
            and deployment["spec"]["template"]["spec"]["containers"] == [container]
            and len(pods(pools)) == 1
            and row.phase == "Ready"
        )

    pools.wait(is_right, lambda: f"{pools.row('a').phase}: {pools.live(DEPLOYMENT)}")


@pytest.mark.parametrize("left", ["the Deployment", "the ReplicaSet"])
def test_what_a_pool_of_that_name_left_is_never_the_next_ones(pools: Pools, left: str) -> None:
    pools.create("a", template=HTTP)
    pools.settle("a", "Ready")
    before = {pod["metadata"]["uid"] for pod in pods(pools)}
    for kind, name in ((DEPLOYMENT, "pool-a"), (STOCK_POOL, "a")):
        if kind == STOCK_POOL or left == "the ReplicaSet":
            orphan(pools, kind, name)
    pools.wait(lambda: pools.reconcile("a").deleted_at is not None, lambda: "it has its row")

    pools.create("a", operationID="of-another", template=HTTP)

    pools.settle("a", "Failed", "NameConflict")
    for kind in (DEPLOYMENT, SERVICE):
        pools.cluster.delete(kind, "pool-a", namespace=pools.namespace)
    pools.settle("a", "Ready")
    assert not before & {pod["metadata"]["uid"] for pod in pods(pools)}


def test_a_pool_that_a_foreign_finalizer_holds_up_names_it(pools: Pools) -> None:
    pools.create("a", replicas=0)
    pools.settle("a", "Empty")
    held = {"metadata": {"finalizers": ["example.com/held"]}}
    pools.cluster.merge_patch(STOCK_POOL, "a", held, namespace=pools.namespace)

    pools.delete("a")
    row = pools.settle("a", "Terminating", "FinalizersRemain")
    version = row.resource_version
    again = pools.reconcile("a")
    free = {"metadata": {"finalizers": None}}
    pools.cluster.merge_patch(STOCK_POOL, "a", free, namespace=pools.namespace)

    assert "'example.com/held'" in row.message
    assert again.resource_version == version, "the status is written once"
    pools.wait(lambda: pools.reconcile("a").deleted_at is not None, lambda: "it is not gone")


def test_names_of_the_greatest_length_that_differ_at_the_end_are_two_pools(pools: Pools) -> None:
    first, second = ("n" * (LONGEST - 1) + letter for letter in "ab")
    for name in (first, second):
        pools.create(name, template=HTTP)
        assert pools.settle(name, "Ready").service_name == f"pool-{name}"
        assert len(pods(pools, name)) == 1

    pools.delete(first)
    pools.wait(lambda: not pods(pools, first), lambda: "the pods of the deleted pool are left")

    assert pools.row(second).phase == "Ready"
    assert len(pods(pools, second)) == 1
    assert pools.cluster.get(SERVICE, f"pool-{second}", namespace=pools.namespace) is not None


def _is_accepted(pools: Pools, name: str) -> bool:
    try:
        pools.by_hand(name, {"specName": "g1.1", "replicas": 1})
    except ClusterRejected:
        return False
    return True


def test_a_pool_that_is_older_than_the_rule_for_names_reports_its_invalid_name(
    pools: Pools,
) -> None:
    before, after = ("n" * LONGEST + letter for letter in "ab")
    without_rule = copy.deepcopy(STOCK_POOL_CRD)
    del without_rule["spec"]["versions"][0]["schema"]["openAPIV3Schema"][VALIDATIONS]
    pools.cluster.apply(CUSTOM_RESOURCE_DEFINITION, without_rule)
    try:
        pools.wait(lambda: _is_accepted(pools, before), lambda: "the rule is still enforced")
    finally:
        pools.cluster.apply(CUSTOM_RESOURCE_DEFINITION, STOCK_POOL_CRD)

    row = pools.settle(before, "Failed", "InvalidSpec")
    again = pools.reconcile(before)

    found = pools.cluster.get(STOCK_POOL, before, namespace=pools.namespace)
    assert found is not None
    assert found["status"]["phase"] == "Failed"
    assert (again.resource_version, again.failures) == (row.resource_version, 0)
    assert not pods(pools, before)
    pools.wait(lambda: not _is_accepted(pools, after), lambda: "the rule is not enforced")


def _rest(pools: Pools, names: list[str]) -> None:
    """Reconcile until no action remains: a real cluster sends events after the phase."""

    def rests() -> bool:
        for name in names:
            pools.reconcile(name)
        return compare_all(pools.platform()) == []

    pools.wait(rests, lambda: "the pools never came to rest")


def test_comparing_everything_takes_the_same_requests_however_many_there_are(
    pools: Pools, proxy: FaultProxy
) -> None:
    taken = []
    for numbers in ((1, 2), range(3, 10)):
        for number in numbers:
            pools.create(f"p{number}", replicas=0, template=HTTP)
            pools.settle(f"p{number}", "Empty")
        _rest(pools, [f"p{number}" for number in numbers])
        before = {verb: proxy.count(verb) for verb in ("get", "list", "patch")}

        assert compare_all(pools.platform()) == []

        taken.append({verb: proxy.count(verb) - count for verb, count in before.items()})

    assert taken[0] == taken[1]
    assert (taken[0]["get"], taken[0]["patch"]) == (0, 0)


@pytest.mark.long
@pytest.mark.lasts(seconds=10)
def test_comparing_everything_beside_many_pods_reads_pages_and_nothing_one_by_one(
    pools: Pools, proxy: FaultProxy
) -> None:
    """Three pages test the rule. `make test-long` has 5,000 pods: `GPUPLATFORM_TEST_PODS=5000`."""
    pools.create("a", replicas=0, template=HTTP)
    pools.settle("a", "Empty")
    _rest(pools, ["a"])
    numbers = range(MANY)
    with ThreadPoolExecutor(4) as threads:
        list(
            threads.map(
                lambda number: pools.cluster.create(POD, _idle_pod(pools, number)), numbers
            )
        )
    before = {verb: proxy.count(verb) for verb in ("get", "list", "patch")}
    before_pods = proxy.count("list", "pods")

    assert compare_all(pools.platform()) == []

    taken = {verb: proxy.count(verb) - count for verb, count in before.items()}
    pages = proxy.count("list", "pods") - before_pods
    assert (taken["get"], taken["patch"]) == (0, 0)
    assert MANY / PAGE_SIZE <= pages <= MANY / PAGE_SIZE + 1
    assert taken["list"] - pages == 3, "pools, Deployments and Services are one page each"


def _idle_pod(pools: Pools, number: int) -> Manifest:
    """Return a pod of a pool that no scheduler handles."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"idle-{number}",
            "namespace": pools.namespace,
            "labels": {POOL_LABEL: "many"},
        },
        "spec": {
            "schedulerName": "nobody",
            "containers": [{"name": "c", "image": "busybox:1.36"}],
        },
    }
