import pytest

from gpuplatform.dev.simulator.apiserver.objects import Manifest
from gpuplatform.dev.simulator.apiserver.schema import (
    apply_defaults,
    drop_nulls,
    go_pattern,
    prune,
    validate,
)

PORT: Manifest = {
    "type": "object",
    "required": ["port"],
    "properties": {
        "port": {"type": "integer", "minimum": 1, "maximum": 65535},
        "protocol": {"type": "string", "default": "TCP"},
    },
}
SCHEMA: Manifest = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 0},
                "word": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5},
                "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
                "maybe": {"type": "string", "nullable": True},
                "either": {"x-kubernetes-int-or-string": True},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "ports": {
                    "type": "array",
                    "maxItems": 2,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["port", "protocol"],
                    "items": PORT,
                },
            },
        }
    },
}
DUPLICATE = 'Duplicate value: {"port":1,"protocol":"TCP"}'


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        pytest.param({}, "spec.size", "Required value", id="required"),
        pytest.param(
            {"size": -1},
            "spec.size",
            "Invalid value: -1: spec.size in body should be greater than or equal to 0",
            id="minimum",
        ),
        pytest.param(
            {"size": "x"},
            "spec.size",
            'Invalid value: "string": spec.size in body must be of type integer: "string"',
            id="type",
        ),
        pytest.param(
            {"size": True},
            "spec.size",
            'Invalid value: "boolean": spec.size in body must be of type integer: "boolean"',
            id="a boolean is no integer",
        ),
        pytest.param(
            {"size": 1, "word": "AB"},
            "spec.word",
            "Invalid value: \"AB\": spec.word in body should match '^[a-z]+$'",
            id="pattern",
        ),
        pytest.param(
            {"size": 1, "word": "ab\n"},
            "spec.word",
            "Invalid value: \"ab\\n\": spec.word in body should match '^[a-z]+$'",
            id="a line break at the end does not match",
        ),
        pytest.param(
            {"size": 1, "word": "abcdef"},
            "spec.word",
            "Too long: may not be more than 5 bytes",
            id="length",
        ),
        pytest.param(
            {"size": 1, "mode": "c"},
            "spec.mode",
            'Unsupported value: "c": supported values: "a", "b"',
            id="enum",
        ),
        pytest.param(
            {"size": 1, "ports": [{"port": 0}]},
            "spec.ports[0].port",
            "Invalid value: 0: spec.ports[0].port in body should be greater than or equal to 1",
            id="in a list",
        ),
        pytest.param(
            {"size": 1, "ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]},
            "spec.ports[1]",
            DUPLICATE,
            id="the same key twice",
        ),
        pytest.param(
            {"size": 1, "ports": [{"port": 1}, {"port": 2}, {"port": 3}]},
            "spec.ports",
            "Too many: 3: must have at most 2 items",
            id="too many",
        ),
        pytest.param(
            {"size": 1, "either": True},
            "spec.either",
            'Invalid value: "boolean": spec.either in body must be of type integer,string:'
            ' "boolean"',
            id="int or string",
        ),
    ],
)
def test_a_fault_has_its_path_and_message(spec: Manifest, field: str, message: str) -> None:
    faults = validate({"spec": spec}, SCHEMA)

    assert [(fault.field, fault.message) for fault in faults] == [(field, message)]


def test_a_valid_object_has_no_faults() -> None:
    spec = {"size": 1, "word": "ab", "maybe": None, "either": "5%", "ports": [{"port": 80}]}

    assert validate({"spec": spec}, SCHEMA) == []


def test_unknown_fields_are_dropped_and_named() -> None:
    obj: Manifest = {
        "apiVersion": "v1",
        "kind": "Widget",
        "metadata": {"name": "x"},
        "spec": {"size": 1, "foo": 1, "free": {"any": 1}, "ports": [{"port": 1, "bar": 2}]},
    }

    unknown = prune(obj, SCHEMA)

    assert sorted(unknown) == ["spec.foo", "spec.ports[0].bar"]
    assert obj["spec"] == {"size": 1, "free": {"any": 1}, "ports": [{"port": 1}]}


def test_defaults_replace_absent_fields_and_nulls() -> None:
    obj: Manifest = {"spec": {"mode": None, "ports": [{"port": 1}]}}

    apply_defaults(obj, SCHEMA)

    assert obj["spec"] == {"mode": "a", "ports": [{"port": 1, "protocol": "TCP"}]}


def test_defaults_create_no_objects() -> None:
    obj: Manifest = {}

    apply_defaults(obj, SCHEMA)

    assert obj == {}


def test_nulls_of_fields_that_are_not_nullable_are_dropped() -> None:
    obj: Manifest = {"spec": {"word": None, "maybe": None, "free": {"x": None}}}

    drop_nulls(obj, SCHEMA)

    assert obj["spec"] == {"maybe": None, "free": {"x": None}}


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        (r"^[a-z$]+$", "a$b", True),
        (r"^[^$]+$", "a$b", False),
        (r"^[]$]+$", "]$", True),
        (r"^[\]$]+$", "]$", True),
        (r"^a\$$", "a$", True),
        (r"^[a]$|^b$", "a\n", False),
        (r"^[a]$|^b$", "b", True),
    ],
)
def test_a_dollar_sign_in_a_character_class_is_a_character(
    pattern: str, text: str, matches: bool
) -> None:
    assert bool(go_pattern(pattern).search(text)) is matches
