"""No decision reads a sentence: enums and columns decide, messages are only shown.

The test searches the syntax tree of each product file (without `dev/` and migrations) for

- lookups on the column of a message, such as `message__regex` or `f"{message}__contains"`;
- `in` and `not in` with a message on either side;
- string searches in a message: `startswith`, `find`, `partition` …, `re.search` …;
- comparison of a message with a sentence of the code.

A message is a name or attribute called `message`, `error_message`, `change_message`, `said`,
`sentence` or `words`, an attribute `text`, a key "message", or one of these through `str`, `lower`
or `strip`. Exact equality of two stored texts is allowed: it only avoids repeated writes.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.contract.source_files import ROOT, is_test, name_of, parse, python_files

_COLUMNS: Final = frozenset({"message", "error_message", "change_message"})
_NAMES: Final = _COLUMNS | {"said", "sentence", "words"}
_ATTRIBUTES: Final = _NAMES | {"text"}
_WRAPPERS: Final = frozenset({"str", "lower", "casefold", "strip", "rstrip", "lstrip"})
_SEARCHES: Final = frozenset(
    [
        "startswith",
        "endswith",
        "find",
        "rfind",
        "index",
        "rindex",
        "count",
        "partition",
        "rpartition",
    ]
)
_PATTERN_SEARCHES: Final = frozenset(["search", "match", "fullmatch", "findall", "finditer"])
_LOOKUP: Final = re.compile(rf"(^|__)({'|'.join(sorted(_COLUMNS))})__\w+")

ALLOWED: Final = {
    "gpuplatform/kube/responses.py": (
        "Failure.is_missing_object",
        "_is_rejection",
    ),  # Kubernetes has no machine-readable value for these two responses.
    "gpuplatform/workloads/container_failures.py": (
        "_state_failure",
    ),  # Selects the displayed part.
}
"""Functions by file that may inspect a message, with the reason."""


def _products() -> Iterator[Path]:
    for path in python_files():
        if not is_test(path) and "dev" not in path.relative_to(ROOT).parts:
            yield path


def _is_message(node: ast.expr) -> bool:
    match node:
        case ast.Name(id=name):
            return name in _NAMES
        case ast.Attribute(attr=name):
            return name in _ATTRIBUTES
        case ast.BoolOp(values=values):
            return any(map(_is_message, values))
        case _:
            return _is_key(node) or _is_wrapped(node)


def _is_key(node: ast.expr) -> bool:
    """Return whether a node reads the key of a message: `a["message"]`, `a.get`, `field(a, …)`."""
    match node:
        case (
            ast.Subscript(slice=ast.Constant(value=key))
            | ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=key), *_])
            | ast.Call(func=ast.Name(id="field"), args=[_, *_, ast.Constant(value=key)])
        ):
            return key in _COLUMNS
        case _:
            return False


def _is_wrapped(node: ast.expr) -> bool:
    match node:
        case (
            ast.Call(func=ast.Name(id=name), args=[inner, *_])
            | ast.Call(func=ast.Attribute(value=inner, attr=name))
        ) if name in _WRAPPERS:
            return _is_message(inner)
        case _:
            return False


def _is_sentence(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(node.value)


def _is_lookup(node: ast.AST) -> bool:
    match node:
        case ast.keyword(arg=str(name)):
            return bool(_LOOKUP.search(name))
        case ast.Constant(value=str(text)):
            return bool(_LOOKUP.fullmatch(text))
        case ast.JoinedStr(values=[*_, ast.FormattedValue(value=inner), ast.Constant(value=end)]):
            return _is_message(inner) and str(end).startswith("__")
        case _:
            return False


def _is_comparison(node: ast.AST) -> bool:
    if not isinstance(node, ast.Compare):
        return False
    sides = (node.left, *node.comparators)
    has_message = any(map(_is_message, sides))
    if any(isinstance(one, ast.In | ast.NotIn) for one in node.ops):
        return has_message
    return has_message and any(map(_is_sentence, sides))


def _is_search(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr=name), args=args):
            is_search = name in _SEARCHES and _is_message(inner)
            return is_search or (name in _PATTERN_SEARCHES and any(map(_is_message, args)))
        case _:
            return False


def _decides(node: ast.AST) -> bool:
    return _is_lookup(node) or _is_comparison(node) or _is_search(node)


def decisions(tree: ast.AST, scope: str = "") -> Iterator[tuple[str, int]]:
    """Yield the scope and line of each decision by a message."""
    for node in ast.iter_child_nodes(tree):
        inner = scope
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{scope}.{node.name}".lstrip(".")
        if _decides(node):
            yield inner, getattr(node, "lineno", 0)
        yield from decisions(node, inner)


@pytest.mark.parametrize("path", list(_products()), ids=name_of)
def test_no_message_decides(path: Path) -> None:
    allowed = ALLOWED.get(name_of(path), ())

    found = [(scope, line) for scope, line in decisions(parse(path)) if scope not in allowed]

    assert not found


def test_every_exception_is_needed() -> None:
    for name, scopes in ALLOWED.items():
        found = {scope for scope, _ in decisions(parse(ROOT / name))}
        assert set(scopes) <= found


@pytest.mark.parametrize(
    "line",
    [
        "rows.filter(message__startswith=ENDING)",
        "rows.exclude(**{'change_message__contains': text})",
        "values = {f'{message}__regex': pattern}",
        "is_wait = 'back-off' in failure.text",
        "is_known = row.message not in KNOWN",
        "is_quota = re.search('quota', row.message)",
        "is_quota = PATTERN.search(str(entry.get('message')))",
        "is_ended = said.lower().startswith('ended')",
        "is_ready = field(condition, 'message') == 'The pod is ready.'",
    ],
)
def test_a_planted_decision_is_found(line: str) -> None:
    assert list(decisions(ast.parse(line)))


@pytest.mark.parametrize(
    "line",
    [
        "rows.update(message=message)",
        "is_same = row.message == wanted",
        "text = f'{message}.'",
        "shown = message or ''",
        "is_unplaced = row.cause in UNPLACED",
    ],
)
def test_showing_a_message_is_not_a_decision(line: str) -> None:
    assert not list(decisions(ast.parse(line)))
