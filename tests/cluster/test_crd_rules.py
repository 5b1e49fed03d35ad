"""The API server refuses with `kubectl apply` what the API refuses, with the path of the field."""

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
            "annotations": {"a.b/c": "d"},
            "terminationGracePeriodSeconds": 300,
            "securityContext": {"runAsUser": 1, "fsGroup": 1, "readOnlyRoot": True},
            "readiness": {"httpGet": {"path": "/health", "port": 1}},
            "startup": {"exec": {"command": ["a"]}, "seconds": 7200},
            "liveness": {"none": True},
        }
    },
    "a variable from a Secret": {
        "template": {
            "envs": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "a"}}}]
        }
    },
}
REFUSED = {
    "memory that is not a quantity": ({"memory": "lots"}, "spec.memory"),
    "too little memory": ({"memory": "1Ki"}, "spec.memory"),
    "cpu finer than 1m": ({"cpu": "100u"}, "spec.cpu"),
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
    "change", [{"gpu": 2}, {"specName": "h100-2g"}], ids=["its GPUs", "its GPU spec"]
)
def test_size_of_a_unit_cannot_be_changed(installed: World, change: dict[str, Any]) -> None:
    post(installed, "fixed", dry_run=False)

    reply = installed.http("PATCH", installed.path(GPU_UNIT, "fixed"), {"spec": change}, MERGE)

    [name] = change
    assert reply.status == 422
    assert reply.fields == [f"spec.{name}"]
