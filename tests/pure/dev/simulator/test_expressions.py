"""CEL expressions of the simulator: types, values, functions, failures."""

from typing import Any

import pytest

from gpuplatform.dev.simulator.apiserver.errors import ApiError
from gpuplatform.dev.simulator.apiserver.expressions import (
    ExpressionError,
    compiled,
    escaped,
    evaluate,
    type_of,
    value_of,
)
from gpuplatform.dev.simulator.apiserver.rules import Rule, compile_rule

TEXT = {"type": "string"}


def result(expression: str, value: Any, schema: dict[str, Any], kind: str = "bool") -> Any:
    expected = compiled(expression, type_of(schema), kind)
    return evaluate(expected.expression, value_of(value, schema), None)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param({"type": "array", "items": {"type": "integer"}}, "list<int>", id="list"),
        pytest.param(
            {"type": "object", "additionalProperties": {"type": "number"}},
            "map<string, double>",
            id="map",
        ),
        pytest.param({"type": "object", "properties": {}}, "map<string, dyn>", id="object"),
        pytest.param({"x-kubernetes-int-or-string": True}, "dyn", id="int or string"),
        pytest.param({"type": "string", "format": "byte"}, "bytes", id="bytes"),
        pytest.param(
            {"type": "string", "format": "date-time"}, "google.protobuf.Timestamp", id="time"
        ),
        pytest.param({"type": "boolean"}, "bool", id="boolean"),
    ],
)
def test_a_schema_has_a_type(schema: dict[str, Any], expected: str) -> None:
    assert type_of(schema) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("plain", "plain", id="plain"),
        pytest.param("namespace", "__namespace__", id="reserved"),
        pytest.param("a-b.c/d", "a__dash__b__dot__c__slash__d", id="punctuation"),
        pytest.param("a__b", "a__underscores__b", id="underscores"),
    ],
)
def test_a_field_name_is_escaped(name: str, expected: str) -> None:
    assert escaped(name) == expected


@pytest.mark.parametrize(
    "expression",
    [
        "isQuantity(self) && !isQuantity('much')",
        "quantity(self) == quantity('1024Mi')",
        "quantity(self).compareTo(quantity('1Mi')) == 1",
        "quantity(self).isLessThan(quantity('1Ti'))",
        "quantity(self).sign() == 1",
        "quantity(self).isInteger() && !quantity('1m').isInteger()",
        "quantity(self).asInteger() == 1073741824",
        "quantity('1500m').asApproximateFloat() == 1.5",
        "self.matches('^[0-9]+Gi$') && self.split('G')[0] == '1'",
        "[1, 2].all(x, x > 0) && self.size() == 3",
    ],
)
def test_an_expression_holds(expression: str) -> None:
    assert result(expression, "1Gi", TEXT) is True


def test_undeclared_fields_are_not_visible() -> None:
    schema = {"type": "object", "properties": {"a": TEXT}}

    assert result("has(self.a) && !has(self.b)", {"a": "x", "b": "y"}, schema) is True


def test_a_time_in_an_object_is_text() -> None:
    schema = {"type": "object", "properties": {"at": {**TEXT, "format": "date-time"}}}
    value = {"at": "2030-01-01T00:00:00Z"}

    assert result("timestamp(self.at) > timestamp('2026-01-01T00:00:00Z')", value, schema) is True


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        pytest.param("self.a == 'b'", "no such key: a", id="key"),
        pytest.param("quantity(self.b).sign() == 1", "'odd' is not a quantity", id="quantity"),
        pytest.param("quantity('1m').asInteger() == 1", "cannot convert value", id="integer"),
    ],
)
def test_a_failed_evaluation_has_a_reason(expression: str, message: str) -> None:
    schema = {"type": "object", "properties": {"b": TEXT}}

    with pytest.raises(ExpressionError, match=message):
        result(expression, {"b": "odd"}, schema)


@pytest.mark.parametrize(
    "expression", ["self.isSorted()", "url(self) == self", "ip(self) == self"]
)
def test_other_libraries_are_not_simulated(expression: str) -> None:
    with pytest.raises(ApiError) as refusal:
        compiled(expression, "string", "bool")

    assert refusal.value.code == 501


def compiled_rule(expression: str) -> Rule:
    return compile_rule({"rule": expression}, TEXT)


def test_a_rule_detects_whether_it_reads_the_old_value() -> None:
    assert compiled_rule("self == oldSelf").check.uses_old
    assert not compiled_rule("self == 'oldSelf'").check.uses_old
