"""Paths: served kinds, kinds that are not simulated, unknown kinds."""

import pytest

from gpuplatform.dev.simulator.apiserver.bodies import read_object
from gpuplatform.dev.simulator.apiserver.errors import ApiError
from gpuplatform.dev.simulator.apiserver.requests import parse_path
from gpuplatform.dev.simulator.apiserver.resources import Registry

REGISTRY = Registry()


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/apis/batch/v1/namespaces/a/cronjobs", "cronjobs.batch"),
        ("/apis/apps/v1/namespaces/a/statefulsets", "statefulsets.apps"),
        ("/api/v1/namespaces/a/podtemplates", "podtemplates"),
        (
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            "selfsubjectaccessreviews.authorization.k8s.io",
        ),
        ("/api/v1/namespaces/a/pods/one/attach", "pods/attach"),
    ],
)
def test_a_kind_that_is_not_simulated_is_501(path: str, what: str) -> None:
    with pytest.raises(ApiError) as refusal:
        parse_path(REGISTRY, path)

    assert refusal.value.code == 501
    assert str(refusal.value) == f"Not simulated: {what}."


def test_an_unknown_kind_is_not_found() -> None:
    with pytest.raises(ApiError) as refusal:
        parse_path(REGISTRY, "/api/v1/namespaces/a/odds")

    assert refusal.value.code == 404
    assert parse_path(REGISTRY, "/apis/odd.example.com/v1/odds") is None


def test_a_body_in_protobuf_is_unsupported_and_the_error_names_a_command() -> None:
    with pytest.raises(ApiError) as refusal:
        read_object(b"k8s\0", "application/vnd.kubernetes.protobuf")

    assert (refusal.value.code, refusal.value.status["reason"]) == (415, "UnsupportedMediaType")
    assert "kubectl create ... --dry-run=client --output=yaml" in str(refusal.value)
