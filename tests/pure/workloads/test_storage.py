"""Shared memory, scratch space and the storage limit of a pod."""

from typing import Any

import pytest

from gpuplatform.workloads.pods import Size
from tests.factories.template_pods import APP, container_of, invalid_fields, pod_of

SHM = {"name": "shm", "mountPath": "/dev/shm"}


@pytest.mark.parametrize(
    ("template", "memory", "directory"),
    [
        ({}, "16Gi", {"medium": "Memory", "sizeLimit": "8Gi"}),
        ({}, "1Mi", {"medium": "Memory", "sizeLimit": "512Ki"}),
        ({}, "1048577", {"medium": "Memory", "sizeLimit": "512Ki"}),
        ({}, None, {"medium": "Memory"}),
        ({"shmSize": "20Gi"}, "16Gi", {"medium": "Memory", "sizeLimit": "20Gi"}),
        ({"shmSize": "1024Mi"}, None, {"medium": "Memory", "sizeLimit": "1Gi"}),
    ],
)
def test_shared_memory_is_half_of_the_memory_by_default(
    template: dict[str, Any], memory: str | None, directory: dict[str, str]
) -> None:
    size = Size(cpu=None, memory=memory, gpu=1)

    assert pod_of(template, size=size)["volumes"] == [{"name": "shm", "emptyDir": directory}]
    assert container_of(template, size=size)["volumeMounts"] == [SHM]


def test_scratch_is_a_directory_with_a_maximum_size() -> None:
    template = {"scratch": {"size": "100Gi", "mountPath": "/data/tmp"}}

    assert pod_of(template)["volumes"][1] == {
        "name": "scratch",
        "emptyDir": {"sizeLimit": "100Gi"},
    }
    assert container_of(template)["volumeMounts"][1] == {
        "name": "scratch",
        "mountPath": "/data/tmp",
    }
    [_, mount] = container_of({"scratch": {"size": "1Gi"}})["volumeMounts"]
    assert mount["mountPath"] == "/scratch"


@pytest.mark.parametrize(
    ("template", "gpus", "limit"),
    [
        ({}, 0, "100Gi"),
        ({}, 8, "1700Gi"),
        ({"scratch": {"size": "50Gi"}}, 1, "350Gi"),
        ({"ephemeralStorage": "20Gi"}, 8, "20Gi"),
        ({"ephemeralStorage": "50Gi", "scratch": {"size": "50Gi"}}, 8, "50Gi"),
    ],
)
def test_storage_of_a_pod_is_limited_but_not_requested(
    template: dict[str, Any], gpus: int, limit: str
) -> None:
    resources = container_of(template, size=Size(cpu=None, memory=None, gpu=gpus))["resources"]

    assert resources["limits"]["ephemeral-storage"] == limit
    assert resources["requests"]["ephemeral-storage"] == "0"


def test_a_reservation_has_no_storage() -> None:
    template = {"shmSize": "1Gi", "scratch": {"size": "1Gi"}}

    found = container_of(template, is_reservation=True)

    assert "volumes" not in pod_of(template, is_reservation=True)
    assert "volumeMounts" not in found
    assert found["resources"]["limits"] == APP.resources()


@pytest.mark.parametrize(
    ("template", "field"),
    [
        ({"shmSize": "0"}, "shmSize"),
        ({"shmSize": 1}, "shmSize"),
        ({"shmSize": None}, "shmSize"),
        ({"shmSize": "lots"}, "shmSize"),
        ({"ephemeralStorage": "1.5"}, "ephemeralStorage"),
        ({"ephemeralStorage": "1Gi", "scratch": {"size": "2Gi"}}, "ephemeralStorage"),
        ({"scratch": {}}, "scratch.size"),
        ({"scratch": "1Gi"}, "scratch"),
        ({"scratch": {"size": "1Gi", "medium": "Memory"}}, "scratch.medium"),
        *(
            ({"scratch": {"size": "1Gi", "mountPath": path}}, "scratch.mountPath")
            for path in (
                *("", "/", "a", "/a/", "//a", "/a:b", "/a/../b", "/./a", "/a b", "/a\n", "/" * 9),
                *("/dev", "/dev/shm", "/proc/1", "/sys", "/run/serverless/x", "/" + "a" * 255, 1),
            )
        ),
    ],
)
def test_invalid_storage_is_rejected_with_its_field(template: dict[str, Any], field: str) -> None:
    assert invalid_fields(template) == [field]
