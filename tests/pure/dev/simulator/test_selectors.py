import pytest

from gpuplatform.dev.simulator.apiserver.errors import ApiError
from gpuplatform.dev.simulator.apiserver.jsonpath import set_at, value_at, values_at
from gpuplatform.dev.simulator.apiserver.selectors import (
    field_selector,
    label_selector,
    labels_match,
)

OBJECT = {
    "metadata": {"name": "one", "namespace": "here", "labels": {"a": "1", "b.io/c": "x"}},
    "spec": {"nodeName": "n1"},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other"}]},
}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("", True),
        ("a=1", True),
        ("a==1,b.io/c=x", True),
        ("a!=1", False),
        ("z!=1", True),
        ("a in (0, 1)", True),
        ("a notin (0,1)", False),
        ("z notin (0)", True),
        ("a", True),
        ("z", False),
        ("!z", True),
        ("!a", False),
        ("a=", False),
        ("a>0", True),
        ("a<1", False),
        (" a = 1 , b.io/c ", True),
    ],
)
def test_label_selectors(text: str, *, holds: bool) -> None:
    assert label_selector(text)(OBJECT) is holds


@pytest.mark.parametrize("text", ["a b", "=1", "a in 1", "a=1,,b", "a in (1", "-a=1"])
def test_an_invalid_label_selector_is_refused(text: str) -> None:
    with pytest.raises(ApiError) as raised:
        label_selector(text)

    assert raised.value.code == 400


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("metadata.name=one", True),
        ("metadata.name!=one", False),
        ("metadata.namespace==here,spec.nodeName=n1", True),
        ("spec.nodeName=", False),
    ],
)
def test_field_selectors(text: str, *, holds: bool) -> None:
    assert field_selector(text, ("spec.nodeName",))(OBJECT) is holds


def test_a_field_that_is_not_supported_is_refused() -> None:
    with pytest.raises(ApiError, match=r"field label not supported: spec\.x"):
        field_selector("spec.x=1", ("spec.nodeName",))


def test_a_missing_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert not labels_match({"a": "1"}, None)
    assert labels_match({"a": "1"}, {})


def test_a_path_selects_by_name_filter_and_index() -> None:
    assert value_at(OBJECT, '.status.conditions[?(@.type=="Ready")].status') == "True"
    assert value_at(OBJECT, r".metadata.labels.b\.io/c") == "x"
    assert value_at(OBJECT, ".metadata.labels['b.io/c']") == "x"
    assert values_at(OBJECT, ".status.conditions[*].type") == ["Ready", "Other"]
    assert value_at(OBJECT, ".status.conditions[5].type") is None


def test_an_unsupported_path_is_refused() -> None:
    with pytest.raises(ValueError, match="not a simple JSON path"):
        value_at(OBJECT, "..name")


def test_setting_a_path_creates_missing_objects() -> None:
    obj: dict[str, object] = {}

    set_at(obj, ".spec.replicas", 3)

    assert obj == {"spec": {"replicas": 3}}
