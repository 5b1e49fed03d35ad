"""Labels select objects by GPU spec, function and tenant."""

from typing import Any

import pytest

from gpuplatform.operations.provenance import TENANT_ANNOTATION
from gpuplatform.workloads.labels import (
    FUNCTION_LABEL,
    SPEC_LABEL,
    TENANT_LABEL,
    pod_labels,
    tenant_label,
)


def test_a_pod_has_its_spec_and_its_function() -> None:
    assert pod_labels("h100-1g") == {SPEC_LABEL: "h100-1g"}
    assert pod_labels("h100-1g", 7) == {SPEC_LABEL: "h100-1g", FUNCTION_LABEL: "7"}


def test_the_tenant_is_that_of_the_annotation() -> None:
    assert TENANT_LABEL == TENANT_ANNOTATION
    assert tenant_label({TENANT_ANNOTATION: "acme"}) == {TENANT_LABEL: "acme"}


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({}, id="none"),
        pytest.param({TENANT_ANNOTATION: ""}, id="empty"),
        pytest.param({TENANT_ANNOTATION: "a b"}, id="a blank"),
        pytest.param({TENANT_ANNOTATION: "a" * 64}, id="too long"),
        pytest.param({TENANT_ANNOTATION: "-a"}, id="a dash in front"),
    ],
)
def test_an_annotation_that_is_not_a_label_value_gives_none(annotations: dict[str, Any]) -> None:
    assert tenant_label(annotations) == {}
