"""Budgets: a file, a class and a function stay small enough to be read in one go."""

import ast
from pathlib import Path

from tests.contract.source_files import (
    is_test,
    lines_of,
    name_of,
    parse,
    python_files,
    text_files,
)

MODULE_LINES, TEST_LINES = 400, 600
FUNCTION_LINES = 40
CLASS_LINES = 200
PUBLIC_METHODS = 12
MODELS = 3
BANNED = {"util", "utils", "helpers", "common", "misc", "base", "manager", "handler"}
"""`manage.py` and `settings/` have names that Django gives."""


def test_no_module_is_longer_than_its_budget() -> None:
    too_long = {
        name_of(path): length
        for path in python_files()
        if (length := len(path.read_text().splitlines()))
        > (TEST_LINES if is_test(path) else MODULE_LINES)
    }

    assert too_long == {}


def test_no_function_is_longer_than_its_budget() -> None:
    too_long = [
        f"{name_of(path)}:{node.lineno} {node.name} has {lines_of(node)} lines"
        for path in python_files()
        for node in ast.walk(parse(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and lines_of(node) > FUNCTION_LINES
    ]

    assert too_long == []


def test_no_class_is_longer_or_wider_than_its_budget() -> None:
    too_large = []
    for path in python_files():
        for node in ast.walk(parse(path)):
            if not isinstance(node, ast.ClassDef):
                continue
            methods = [
                item
                for item in node.body
                if isinstance(item, ast.FunctionDef) and not item.name.startswith("_")
            ]
            is_large = lines_of(node) > CLASS_LINES or len(methods) > PUBLIC_METHODS
            if is_large and not is_test(path):
                too_large.append(f"{name_of(path)}:{node.lineno} {node.name}")

    assert too_large == []


def test_no_file_has_a_name_that_says_nothing() -> None:
    assert [name_of(path) for path in python_files() if path.stem in BANNED] == []


def test_every_package_of_ours_and_no_test_folder_is_a_package() -> None:
    folders = {path.parent for path in python_files() if not is_test(path)} - {
        Path(__file__).parents[2]
    }

    assert [name_of(folder) for folder in folders if not (folder / "__init__.py").exists()] == []
    assert [name_of(p) for p in python_files() if is_test(p) and p.name == "__init__.py"] == []


def test_no_file_names_a_path_of_one_machine() -> None:
    # Put together here, so that this file does not name one.
    homes = [f"/{name}/" for name in ("work", "home", "Users", "root")] + [".." + "/shared"]
    found = []
    for path in text_files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        found += [f"{name_of(path)}: {home}" for home in homes if home in text]

    assert found == []


def test_text_files_end_with_one_newline() -> None:
    wrong = []
    for path in text_files():
        data = path.read_bytes()
        if b"\0" in data or not data or "vendor" in path.parts:
            continue
        if not data.endswith(b"\n") or data.endswith(b"\n\n"):
            wrong.append(name_of(path))

    assert wrong == []
