"""The container whose log or command a request selects, as on a real server."""

from typing import Any

import pytest

from gpuplatform.dev.simulator.apiserver.errors import ApiError
from gpuplatform.dev.simulator.apiserver.kubelets import container_of


def pod(*names: str, node: str = "n") -> dict[str, Any]:
    containers = [{"name": name} for name in names]
    return {"metadata": {"name": "p"}, "spec": {"nodeName": node, "containers": containers}}


def test_the_only_container_is_the_default() -> None:
    assert container_of(pod("a"), {}) == "a"
    assert container_of(pod("a", "b"), {"container": "b"}) == "b"


@pytest.mark.parametrize(
    ("of", "query", "message"),
    [
        (pod("a"), {"container": "other"}, "container other is not valid for pod p"),
        (pod("a", node=""), {}, "have a host assigned"),
        (pod("a", "b"), {}, "[a b]"),
    ],
    ids=["unknown", "host", "many"],
)
def test_an_unclear_container_is_a_bad_request(
    of: dict[str, Any], query: dict[str, str], message: str
) -> None:
    with pytest.raises(ApiError) as refused:
        container_of(of, query)

    assert refused.value.code == 400
    assert message in str(refused.value)
