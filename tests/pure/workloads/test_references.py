"""Variables from Secrets, ConfigMaps and fields of the pod, and Secrets of registries."""

from typing import Any

import pytest

from gpuplatform.workloads.template import PodTemplate
from tests.factories.template_pods import container_of, invalid_fields, pod_of

SOURCES: list[dict[str, Any]] = [
    {"secretKeyRef": {"name": "hf", "key": "token"}},
    {"secretKeyRef": {"name": "hf", "key": "token", "optional": True}},
    {"configMapKeyRef": {"name": "models", "key": "path"}},
    {"configMapKeyRef": {"name": "models", "key": "path", "optional": True}},
    {"fieldRef": {"fieldPath": "status.podIP"}},
    {"fieldRef": {"fieldPath": "metadata.labels['app.kubernetes.io/name']"}},
]
ENV_FROM: list[dict[str, Any]] = [
    {"secretRef": {"name": "hf"}},
    {"prefix": "A_", "configMapRef": {"name": "models", "optional": True}},
]


@pytest.mark.parametrize("source", SOURCES)
def test_a_variable_has_its_source(source: dict[str, Any]) -> None:
    variable = {"name": "A", "valueFrom": source}

    assert variable in container_of({"envs": [variable]})["env"]
    assert PodTemplate.parse({"envs": [variable]}).normalised() == {"envs": [variable]}


def test_a_container_has_the_variables_of_objects() -> None:
    assert container_of({"envFrom": ENV_FROM})["envFrom"] == ENV_FROM
    assert "envFrom" not in container_of({})


@pytest.mark.parametrize("is_reservation", [False, True])
def test_a_pod_has_the_secrets_of_its_registry(is_reservation: bool) -> None:
    secrets = [{"name": "registry"}, {"name": "other"}]

    found = pod_of({"imagePullSecrets": secrets}, is_reservation=is_reservation)

    assert found["imagePullSecrets"] == secrets
    assert "imagePullSecrets" not in pod_of({})


VALUE = "envs[0].valueFrom"


@pytest.mark.parametrize(
    ("source", "field"),
    [
        ({}, VALUE),
        ({**SOURCES[0], **SOURCES[2]}, VALUE),
        ({"fileKeyRef": {}}, f"{VALUE}.fileKeyRef"),
        ({"secretKeyRef": {"name": "fn-1-queue", "key": "a"}}, f"{VALUE}.secretKeyRef.name"),
        ({"configMapKeyRef": {"name": "A", "key": "a"}}, f"{VALUE}.configMapKeyRef.name"),
        ({"configMapKeyRef": {"name": "a", "key": ""}}, f"{VALUE}.configMapKeyRef.key"),
        (
            {"secretKeyRef": {"name": "a", "key": "a", "optional": 1}},
            f"{VALUE}.secretKeyRef.optional",
        ),
        *(
            ({"fieldRef": {"fieldPath": path}}, f"{VALUE}.fieldRef.fieldPath")
            for path in (
                *("", "status", "status.phase", "spec.containers", "metadata.labels", "podIP"),
                *("metadata.labels['']", "metadata.labels['a b']", "metadata.labels['-']"),
                *(
                    "metadata.annotations['A/b']",
                    "status.podIP\n",
                    "metadata.name " + "x" * 400,
                    1,
                ),
            )
        ),
    ],
)
def test_invalid_sources_are_rejected_with_their_field(source: Any, field: str) -> None:
    assert invalid_fields({"envs": [{"name": "A", "valueFrom": source}]}) == [field]


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        ({}, "envFrom[0]"),
        ({"prefix": "A_"}, "envFrom[0]"),
        ({"secretRef": {"name": "a"}, "configMapRef": {"name": "a"}}, "envFrom[0]"),
        ({"secretRef": {"name": "gpu-platform-secrets"}}, "envFrom[0].secretRef.name"),
        ({"secretRef": {"name": "fn-7-queue"}}, "envFrom[0].secretRef.name"),
        ({"secretRef": {"name": "a", "key": "b"}}, "envFrom[0].secretRef.key"),
        ({"configMapRef": {}}, "envFrom[0].configMapRef.name"),
        *(
            ({"prefix": prefix, "secretRef": {"name": "a"}}, "envFrom[0].prefix")
            for prefix in ("", "1", "a b", "A=", "SERVERLESS_", "SERVERLESS_A", "NVIDIA_", "N", 1)
        ),
    ],
)
def test_invalid_objects_are_rejected_with_their_field(entry: Any, field: str) -> None:
    assert invalid_fields({"envFrom": [entry]}) == [field]


@pytest.mark.parametrize(
    ("secrets", "field"),
    [
        ([{"name": "gpu-platform-registry"}], "imagePullSecrets[0].name"),
        ([{"name": "A"}], "imagePullSecrets[0].name"),
        ([{}], "imagePullSecrets[0].name"),
        (["registry"], "imagePullSecrets[0]"),
        ([{"name": "a"}, {"name": "a"}], "imagePullSecrets[1].name"),
        ([{"name": f"a{n}"} for n in range(21)], "imagePullSecrets"),
    ],
)
def test_invalid_pull_secrets_are_rejected_with_their_field(secrets: Any, field: str) -> None:
    assert invalid_fields({"imagePullSecrets": secrets}) == [field]
