"""CEL expressions over custom resources: types, values, compilation and evaluation.

The environment has the standard functions, the string and optional extensions, and Kubernetes'
quantity functions. Kubernetes' other libraries are not simulated. Objects with properties have the
type `map`. Therefore access to an undeclared field fails when a rule is evaluated, whereas
Kubernetes rejects such a CustomResourceDefinition.
"""

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from cel_expr_python import cel
from cel_expr_python.ext import ext_optional, ext_strings

from gpuplatform import clock
from gpuplatform.dev.simulator.apiserver.errors import not_simulated
from gpuplatform.dev.simulator.apiserver.schema import INT_OR_STRING, Schema
from gpuplatform.formats.quantity import NANO, Quantity

Expression: TypeAlias = cel.Expression

_STRINGS_VERSION = 2
"""Version of the CEL string extension that Kubernetes uses."""
_RESERVED = frozenset(
    {
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for"),
        *("function", "if", "import", "let", "loop", "package", "namespace", "return", "var"),
        *("void", "while"),
    }
)
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_TYPES = {"integer": "int", "number": "double", "boolean": "bool", "string": "string"}
_TIMESTAMP = "google.protobuf.Timestamp"
_NOT_SIMULATED = frozenset(
    {
        *("add", "sub", "url", "isURL", "ip", "isIP", "cidr", "isCIDR", "format", "semver"),
        *("isSemver", "find", "findAll", "sets", "lists", "isSorted", "sum", "min", "max"),
        *("distinct", "flatten", "sort", "sortBy", "slice"),
    }
)
"""Names of functions in Kubernetes' CEL libraries that are not simulated."""
_UNDECLARED = re.compile(r"undeclared reference to '(\w+)'")
_MISSING_KEY = re.compile(r'^NOT_FOUND: Key not found in map : "?([^"]*)"?$')
_CODE = re.compile(r"^[A-Z_]+: ")


class ExpressionError(Exception):
    """An expression that cannot be compiled or evaluated."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled expression. `uses_old` is whether the expression refers to `oldSelf`."""

    expression: Expression
    uses_old: bool


def type_of(schema: Schema) -> str:
    """Return the CEL type of `self` for a schema, such as `list<map<string, int>>`."""
    return _TIMESTAMP if schema.get("format") == "date-time" else _member_type(schema)


def _member_type(schema: Schema) -> str:
    if schema.get(INT_OR_STRING):
        return "dyn"
    match schema.get("type"):
        case "array":
            return f"list<{_member_type(schema.get('items', {}))}>"
        case "object":
            extra = schema.get("additionalProperties")
            return f"map<string, {_member_type(extra) if isinstance(extra, dict) else 'dyn'}>"
        case "string" if schema.get("format") == "byte":
            return "bytes"
        case other:
            return _TYPES.get(str(other), "dyn")


def value_of(value: Any, schema: Schema) -> Any:
    """Return `value` as a CEL value that contains only the fields that `schema` declares.

    Field names are escaped. A date-time value is converted to a timestamp. Inside of lists and
    objects it remains a string, because the library does not support timestamps there.
    `timestamp(self.at)` works in both cases.
    """
    if schema.get("format") == "date-time":
        return clock.parse_rfc3339(value)
    return _member_value(value, schema)


def _member_value(value: Any, schema: Schema) -> Any:
    if isinstance(value, dict) and "properties" in schema:
        known = schema["properties"]
        return {escaped(k): _member_value(v, known[k]) for k, v in value.items() if k in known}
    if isinstance(value, dict):
        extra = schema.get("additionalProperties")
        member = extra if isinstance(extra, dict) else {}
        return {key: _member_value(item, member) for key, item in value.items()}
    if isinstance(value, list):
        return [_member_value(item, schema.get("items", {})) for item in value]
    kinds = (schema.get("format", ""), schema.get("type", ""))
    convert = next((_CONVERSIONS[kind] for kind in kinds if kind in _CONVERSIONS), None)
    return value if convert is None or value is None else convert(value)


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "byte": base64.b64decode,
    "number": float,
    "integer": int,
}
"""Functions that convert JSON values of a format or type to CEL values."""


def escaped(name: str) -> str:
    """Return the CEL identifier of a field name. For example, `x-y` becomes `x__dash__y`."""
    if name in _RESERVED:
        return f"__{name}__"
    return re.sub(r"__|[-./]", lambda match: _ESCAPES[match[0]], name)


@lru_cache(maxsize=1024)
def compiled(expression: str, self_type: str, result: str) -> Compiled:
    """Compile an expression with the variables `self` and `oldSelf` of type `self_type`.

    The result type is `bool` or `string`.

    Raises:
        ExpressionError: If the expression is invalid or has another result type.
        ApiError: 501 if the expression uses a library that is not simulated.
    """
    try:
        plain = _environment(self_type, has_old=False).compile(expression)
    except RuntimeError:
        found = Compiled(_compile(expression, self_type), uses_old=True)
    else:
        found = Compiled(plain, uses_old=False)
    if found.expression.return_type().name() not in {result.upper(), "DYN"}:
        kind = "a bool" if result == "bool" else "a string"
        msg = f"cel expression must evaluate to {kind}"
        raise ExpressionError(msg)
    return found


def _compile(expression: str, self_type: str) -> Expression:
    try:
        return _environment(self_type, has_old=True).compile(expression)
    except RuntimeError as error:
        text = str(error).removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
        missing = _UNDECLARED.search(text)
        if missing and missing[1] in _NOT_SIMULATED:
            raise not_simulated(f"the CEL function {missing[1]}") from error
        msg = f"compilation failed: {text}"
        raise ExpressionError(msg) from error


def evaluate(expression: Expression, current: Any, old: Any) -> Any:
    """Evaluate an expression and return its result.

    `current` and `old` are values that `value_of` returned.

    Raises:
        ExpressionError: If the evaluation fails. The message is the message of Kubernetes.
    """
    result = expression.eval(data={"self": current, "oldSelf": old})
    value = result.value()
    if result.type() == cel.Type.ERROR:
        text = str(value)
        missing = _MISSING_KEY.match(text)
        raise ExpressionError(f"no such key: {missing[1]}" if missing else _CODE.sub("", text))
    return value


@lru_cache(maxsize=256)
def _environment(self_type: str, *, has_old: bool) -> cel.Env:
    kind = cel.Type(self_type)
    return cel.NewEnv(
        variables={"self": kind} | ({"oldSelf": kind} if has_old else {}),
        extensions=[ext_strings.ExtStrings(_STRINGS_VERSION), ext_optional.ExtOptional()],
        functions=_quantity_functions(),
    )


def _quantity_functions() -> list[cel.FunctionDecl]:
    """Return Kubernetes' quantity library. A quantity is represented by its canonical string."""
    text, whole = cel.Type.STRING, cel.Type.INT
    return [
        _function("isQuantity", cel.Type.BOOL, [text], _is_quantity, is_member=False),
        _function("quantity", text, [text], _canonical, is_member=False),
        _function("isGreaterThan", cel.Type.BOOL, [text, text], lambda a, b: _compare(a, b) > 0),
        _function("isLessThan", cel.Type.BOOL, [text, text], lambda a, b: _compare(a, b) < 0),
        _function("compareTo", whole, [text, text], _compare),
        _function("sign", whole, [text], lambda a: _compare(a, "0")),
        _function("isInteger", cel.Type.BOOL, [text], lambda a: Quantity.parse(a).is_whole),
        _function("asInteger", whole, [text], _integer),
        _function("asApproximateFloat", cel.Type.DOUBLE, [text], lambda a: _nanos(a) / NANO),
    ]


def _function(
    name: str,
    result: cel.Type,
    parameters: list[cel.Type],
    implementation: Callable[..., Any],
    *,
    is_member: bool = True,
) -> cel.FunctionDecl:
    overload = cel.Overload(
        f"quantity_{name}", result, parameters, is_member=is_member, impl=implementation
    )
    return cel.FunctionDecl(name, [overload])


def _is_quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except ValueError:
        return False
    return True


def _canonical(text: str) -> str:
    return Quantity.parse(text).canonical()


def _nanos(text: str) -> int:
    return Quantity.parse(text).nanos


def _compare(first: str, second: str) -> int:
    difference = _nanos(first) - _nanos(second)
    return (difference > 0) - (difference < 0)


def _integer(text: str) -> int:
    quantity = Quantity.parse(text)
    if not quantity.is_whole:
        msg = "cannot convert value to integer"
        raise ValueError(msg)
    return int(quantity)
