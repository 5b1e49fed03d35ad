import pytest

from gpuplatform.kube.kinds import DEPLOYMENT, NAMESPACE, POD, STOCK_POOL, ResourceKind


@pytest.mark.parametrize(
    ("kind", "namespace", "name", "subresource", "path"),
    [
        pytest.param(POD, "a", "b", "", "/api/v1/namespaces/a/pods/b", id="core object"),
        pytest.param(POD, None, "", "", "/api/v1/pods", id="all namespaces"),
        pytest.param(POD, "a", "", "", "/api/v1/namespaces/a/pods", id="one namespace"),
        pytest.param(NAMESPACE, "a", "b", "", "/api/v1/namespaces/b", id="not namespaced"),
        pytest.param(
            DEPLOYMENT, "a", "b", "", "/apis/apps/v1/namespaces/a/deployments/b", id="group"
        ),
        pytest.param(
            STOCK_POOL,
            "a",
            "b",
            "status",
            "/apis/runtime.lokiwager.io/v1alpha1/namespaces/a/stockpools/b/status",
            id="subresource",
        ),
        pytest.param(POD, "a/b", "../c?", "", "/api/v1/namespaces/a%2Fb/pods/..%2Fc%3F", id="odd"),
    ],
)
def test_path_of_kind(
    kind: ResourceKind, namespace: str | None, name: str, subresource: str, path: str
) -> None:
    assert kind.path(namespace, name, subresource) == path


def test_one_object_of_a_namespaced_kind_needs_its_namespace() -> None:
    with pytest.raises(ValueError, match="requires a namespace"):
        POD.path(None, "x")


def test_core_group_has_no_slash_in_its_api_version() -> None:
    assert (POD.api_version, DEPLOYMENT.api_version) == ("v1", "apps/v1")
