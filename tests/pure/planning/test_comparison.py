"""Comparison before a write: settled objects cost no write, and every difference is found."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplatform.planning.comparison import contains, status_differs

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(JSON)
def test_everything_contains_itself(value: Any) -> None:
    assert contains(value, value)


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4), JSON)
def test_fields_that_the_server_adds_are_no_difference(wanted: dict[str, Any], added: Any) -> None:
    assert contains({**wanted, "a key that no other is": added}, wanted)


@pytest.mark.parametrize(
    ("live", "wanted"),
    [
        ({"a": 1}, {"a": 2}),
        ({}, {"a": None}),
        ({}, {"a": 0}),
        ({"a": None}, {"a": {}}),
        ([1, 2], [1]),
        ([1], [1, 2]),
        ([2, 1], [1, 2]),
        (None, {}),
        ("x", ["x"]),
        ([{"name": "a", "v": 1}], [{"name": "a", "v": 2}]),
        ([{"name": "a"}], [{"name": "b"}]),
        ([None, "x"], [{"name": "b"}]),
        ([{"name": "a"}], []),
    ],
)
def test_a_difference_is_found(live: Any, wanted: Any) -> None:
    assert not contains(live, wanted)


def test_lists_of_named_objects_are_matched_by_name_and_may_hold_more() -> None:
    live = [{"name": "b", "x": 1}, {"name": "a", "y": 2, "z": 3}]

    assert contains(live, [{"name": "a", "y": 2}])


def test_an_equal_status_is_not_written() -> None:
    live = {"phase": "Ready", "lastSyncTime": "2026-01-01T00:00:00Z", "theirs": 1}

    assert not status_differs(live, {"phase": "Ready", "lastSyncTime": "now", "serviceName": None})


@pytest.mark.parametrize(
    "wanted", [{"phase": "Failed"}, {"available": 0}, {"phase": "Ready", "conditions": [{}]}]
)
def test_a_different_status_is_written(wanted: dict[str, Any]) -> None:
    assert status_differs({"phase": "Ready", "conditions": []}, wanted)
