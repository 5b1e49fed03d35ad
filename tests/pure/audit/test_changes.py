"""The changed fields of an object, without secret values."""

import json
from typing import Any

import pytest

from gpuplatform.audit.core.changes import MAX_CHANGES, MAX_TEXT, changed_fields

CANARY = "canary"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, {"gpu": 1}, [{"field": "gpu", "to": 1}]),
        ({"gpu": 1}, {"gpu": 1}, []),
        ({"gpu": 1}, {"gpu": 2}, [{"field": "gpu", "from": 1, "to": 2}]),
        ({"gpu": 1, "cpu": "8"}, {"gpu": 2}, [{"field": "gpu", "from": 1, "to": 2}]),
        ({"gpu": 0}, {"gpu": 1}, [{"field": "gpu", "from": 0, "to": 1}]),
        ({"on": True}, {"on": False}, [{"field": "on", "from": True, "to": False}]),
        ({"scopes": ["a"]}, {"scopes": ["b"]}, [{"field": "scopes", "from": ["a"], "to": ["b"]}]),
        (
            {"limits": {"gpus": 8, "units": 1}},
            {"limits": {"gpus": 4}},
            [
                {"field": "limits.gpus", "from": 8, "to": 4},
                {"field": "limits.units", "from": 1},
            ],
        ),
        (
            {"ports": [{"name": "web", "port": 80}]},
            {"ports": [{"name": "web", "port": 81}]},
            [{"field": "ports[web].port", "from": 80, "to": 81}],
        ),
    ],
)
def test_the_changed_fields_have_both_values(
    before: dict[str, Any] | None, after: dict[str, Any], expected: list[dict[str, Any]]
) -> None:
    assert changed_fields(before, after) == expected


@pytest.mark.parametrize(
    "field",
    [
        {"envs": [{"name": "A", "value": CANARY}]},
        {"env": {"A": CANARY}},
        {"command": [CANARY]},
        {"args": ["--key", CANARY]},
        {"annotations": {"a": CANARY}},
        {"onDone": {"url": CANARY}},
        {"headers": {"authorization": CANARY}},
        {"readiness": {"httpGet": {"httpHeaders": [{"name": "a", "value": CANARY}]}}},
        {"liveness": {"exec": {"command": [CANARY]}}},
        {"payload": CANARY},
    ],
    ids=lambda field: next(iter(field)),
)
def test_secret_values_are_hidden_and_their_change_is_shown(field: dict[str, Any]) -> None:
    for after in (field, {"unit": field}):
        other = json.loads(json.dumps(after).replace(CANARY, "other"))

        created, changed = changed_fields(None, after), changed_fields(other, after)

        assert CANARY not in json.dumps(created)
        assert CANARY not in json.dumps(changed)
        assert [(one["from"], one["to"]) for one in changed] == [("(hidden)", "(hidden)")]


def test_an_entry_has_a_limited_size() -> None:
    found = changed_fields(None, {f"field-{n}": "x" * 1_000 for n in range(MAX_CHANGES + 7)})

    assert len(found) == MAX_CHANGES + 1
    assert found[-1] == {"more": 7}
    assert {len(one["to"]) for one in found[:-1]} == {MAX_TEXT + 1}
