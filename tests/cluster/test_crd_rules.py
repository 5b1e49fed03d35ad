"""The API server and the API reject the same specs, with the path of the field."""

from typing import Any

import pytest

from gpuplatform.kube.kinds import GPU_UNIT, Manifest
from tests.cluster.world import MERGE, Reply, World

pytestmark = [pytest.mark.cluster, pytest.mark.django_db]

PORTS = [{"name": "http", "port": 80}]


def post(world: World, name: str, *, dry_run: bool = True, **spec: Any) -> Reply:
    """Send a unit of one GPU with the given fields of its spec."""
    unit: Manifest = {"metadata": {"name": name}}
    unit["spec"] = {"specName": "h100-1g", "gpu": 1, **spec}
    query = "?dryRun=All" if dry_run else ""
    return world.http("POST", world.path(GPU_UNIT) + query, world.placed(GPU_UNIT, unit))


ACCEPTED = {
    "nothing optional": {},
    "sizes": {"memory": "16Gi", "cpu": "500m"},
    "a port number with two protocols": {
        "template": {"ports": [*PORTS, {"name": "quic", "port": 80, "protocol": "UDP"}]}
    },
    "a primary port of the template": {
        "template": {"ports": PORTS},
        "access": {"primaryPort": "http"},
    },
    "variables of the loader and of the GPU runtime": {
        "template": {
            "envs": [
                {"name": name, "value": "a"}
                for name in (
                    "LD_LIBRARY_PATH",
                    "NVIDIA_DRIVER_CAPABILITIES",
                    "CUDA_VISIBLE_DEVICES",
                )
            ]
        }
    },
    "every field of the template": {
        "template": {
            "workingDir": "/w",
            "args": ["\x1b"] * 1_000,
            "envs": [{"name": f"A{n}", "value": "$$"} for n in range(1_000)],
            "envFrom": [{"prefix": "A_", "configMapRef": {"name": "a", "optional": True}}],
            "shmSize": "1Gi",
            "scratch": {"size": "1Gi", "mountPath": "/data"},
            "ephemeralStorage": "2Gi",
            "imagePullSecrets": [{"name": "registry"}],
            "annotations": {"a.b/c": "d", "cdi.k8s.io.example.com/a": "b", "plain": ""},
            "terminationGracePeriodSeconds": 300,
            "securityContext": {"runAsUser": 1, "fsGroup": 1, "readOnlyRoot": True},
            "readiness": {"httpGet": {"path": "/health", "port": 1}},
            "startup": {"exec": {"command": ["a"]}, "seconds": 7200},
            "liveness": {"none": True},
        }
    },
    "a MIG slice and further resources": {
        "resourceName": "nvidia.com/mig-1g.10gb",
        "resources": {"rdma/hca": "1", "nvidia.com/gpumem": "4k"},
    },
    "no further resources": {"resources": {}},
    "a placement": {
        "placement": {
            "nodeSelector": {"nvidia.com/gpu.product": "A_b.c", "zone": ""},
            "tolerations": [
                {"operator": "Exists"},
                {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
            ],
        }
    },
    "a place in a group": {"group": {"name": "team", "rank": 1, "size": 2}},
    "a variable of groups without a group": {
        "template": {"envs": [{"name": "GROUP_RANK", "value": "a"}]}
    },
    "a variable from a Secret": {
        "template": {
            "envs": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "a"}}}]
        }
    },
}
REFUSED = {
    "a rank that the group does not have": (
        {"group": {"name": "team", "rank": 2, "size": 2}},
        "spec.group.rank",
    ),
    "a group of one unit": ({"group": {"name": "team", "rank": 0, "size": 1}}, "spec.group.size"),
    "a variable that the platform sets in a group": (
        {
            "group": {"name": "team", "rank": 0, "size": 2},
            "template": {"envs": [{"name": "GROUP_MASTER", "value": "a"}]},
        },
        "spec.template.envs",
    ),
    "memory that is not a quantity": ({"memory": "lots"}, "spec.memory"),
    "too little memory": ({"memory": "1Ki"}, "spec.memory"),
    "cpu finer than 1m": ({"cpu": "100u"}, "spec.cpu"),
    "a GPU resource without a domain": ({"resourceName": "gpu"}, "spec.resourceName"),
    "a GPU resource of Kubernetes": (
        {"resourceName": "a.kubernetes.io/gpu"},
        "spec.resourceName",
    ),
    "a GPU resource with the prefix of a quota": (
        {"resourceName": "requests.nvidia.com/gpu"},
        "spec.resourceName",
    ),
    "a fraction of a resource": (
        {"resources": {"rdma/hca": "0.5"}},
        "spec.resources[rdma/hca]",
    ),
    "none of a resource": ({"resources": {"rdma/hca": "0"}}, "spec.resources[rdma/hca]"),
    "too much of a resource": ({"resources": {"rdma/hca": "1Ei"}}, "spec.resources[rdma/hca]"),
    "a resource without a domain": ({"resources": {"cpu": "1"}}, "spec.resources"),
    "a resource of Kubernetes": (
        {"resources": {"hugepages.kubernetes.io/a": "1"}},
        "spec.resources",
    ),
    "a resource with the prefix of a quota": (
        {"resources": {"requests.nvidia.com/gpu": "1"}},
        "spec.resources",
    ),
    "a resource with an uppercase domain": ({"resources": {"A.b/c": "1"}}, "spec.resources"),
    "a label that no node can have": (
        {"placement": {"nodeSelector": {"a b": "c"}}},
        "spec.placement.nodeSelector",
    ),
    "a value that no label can have": (
        {"placement": {"nodeSelector": {"a": "b c"}}},
        "spec.placement.nodeSelector.a",
    ),
    "a key that no taint can have": (
        {"placement": {"tolerations": [{"key": "a b", "operator": "Exists"}]}},
        "spec.placement.tolerations[0].key",
    ),
    "an annotation with an invalid key": (
        {"template": {"annotations": {"a b": "c"}}},
        "spec.template.annotations",
    ),
    "an annotation that grants devices": (
        {"template": {"annotations": {"devices.cdi.k8s.io/a": "b"}}},
        "spec.template.annotations",
    ),
    "an annotation of a container runtime": (
        {"template": {"annotations": {"io.containerd.a": "b"}}},
        "spec.template.annotations",
    ),
    "the resource of the GPUs twice": (
        {"resources": {"nvidia.com/gpu": "1"}},
        "spec.resources",
    ),
    "a variable of the platform": (
        {"template": {"envs": [{"name": "UNIT_NAME", "value": "a"}]}},
        "spec.template.envs[0].name",
    ),
    "a prefix of the platform": (
        {"template": {"envs": [{"name": "SERVERLESS_A", "value": "x"}]}},
        "spec.template.envs[0].name",
    ),
    "a variable that grants devices": (
        {"template": {"envs": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}},
        "spec.template.envs[0].name",
    ),
    "a Secret of the platform": (
        {
            "template": {
                "envs": [
                    {
                        "name": "TOKEN",
                        "valueFrom": {"secretKeyRef": {"name": "gpu-platform-x", "key": "a"}},
                    }
                ]
            }
        },
        "spec.template.envs[0].valueFrom.secretKeyRef.name",
    ),
    "two sources of a variable": (
        {
            "template": {
                "envs": [
                    {
                        "name": "A",
                        "valueFrom": {
                            "fieldRef": {"fieldPath": "status.podIP"},
                            "configMapKeyRef": {"name": "a", "key": "b"},
                        },
                    }
                ]
            }
        },
        "spec.template.envs[0].valueFrom",
    ),
    "variables of a Secret of the platform": (
        {"template": {"envFrom": [{"secretRef": {"name": "gpu-platform-x"}}]}},
        "spec.template.envFrom[0].secretRef.name",
    ),
    "a pull secret of the platform": (
        {"template": {"imagePullSecrets": [{"name": "fn-1-queue"}]}},
        "spec.template.imagePullSecrets[0].name",
    ),
    "a probe without a handler": (
        {"template": {"readiness": {"seconds": 5}}},
        "spec.template.readiness",
    ),
    "too little shared memory": ({"template": {"shmSize": "1Ki"}}, "spec.template.shmSize"),
    "a port number twice": (
        {"template": {"ports": [*PORTS, {"name": "again", "port": 80}]}},
        "spec.template.ports",
    ),
    "a primary port without ports": (
        {"access": {"primaryPort": "http"}},
        "spec.access.primaryPort",
    ),
    "a primary port of another name": (
        {"template": {"ports": PORTS}, "access": {"primaryPort": "other"}},
        "spec.access.primaryPort",
    ),
}


@pytest.mark.parametrize("spec", ACCEPTED.values(), ids=ACCEPTED)
def test_valid_unit_is_accepted(installed: World, spec: dict[str, Any]) -> None:
    reply = post(installed, "valid", **spec)

    assert reply.status == 201


@pytest.mark.parametrize(("spec", "field"), REFUSED.values(), ids=REFUSED)
def test_invalid_unit_is_refused_with_its_field(
    installed: World, spec: dict[str, Any], field: str
) -> None:
    reply = post(installed, "invalid", **spec)

    assert reply.status == 422
    assert reply.fields == [field]


@pytest.mark.parametrize("name", ["a" * 59, "with.dot"], ids=["too long", "a dot"])
def test_name_that_fits_no_label_is_refused(installed: World, name: str) -> None:
    reply = post(installed, name)

    assert reply.status == 422


@pytest.mark.parametrize(
    "change",
    [
        {"gpu": 2},
        {"specName": "h100-2g"},
        {"resourceName": "amd.com/gpu"},
        {"resources": {"rdma/hca": "1"}},
    ],
    ids=["its GPUs", "its GPU spec", "the resource of its GPUs", "its further resources"],
)
def test_size_of_a_unit_cannot_be_changed(installed: World, change: dict[str, Any]) -> None:
    post(installed, "fixed", dry_run=False)

    reply = installed.http("PATCH", installed.path(GPU_UNIT, "fixed"), {"spec": change}, MERGE)

    [name] = change
    assert reply.status == 422
    assert reply.fields == [f"spec.{name}"]


def test_a_value_that_equals_an_absent_field_is_no_change(installed: World) -> None:
    post(installed, "same", dry_run=False)
    same = {"spec": {"resourceName": "nvidia.com/gpu", "resources": {}, "suspend": True}}

    reply = installed.http("PATCH", installed.path(GPU_UNIT, "same"), same, MERGE)
    back = installed.http(
        "PATCH",
        installed.path(GPU_UNIT, "same"),
        {"spec": {"resourceName": None, "resources": None}},
        MERGE,
    )

    assert (reply.status, back.status) == (200, 200)
    assert back.body["spec"]["resourceName"] == "nvidia.com/gpu"
