"""Each file has one concern and a descriptive name, and contains no path of a machine."""

from pathlib import Path

from tests.contract.source_files import (
    is_test,
    name_of,
    python_files,
    text_files,
)

MODULE_LINES, TEST_LINES = 400, 600
BANNED = {"util", "utils", "helpers", "common", "misc", "base", "manager", "handler"}
"""Django requires these names."""


def test_no_module_is_longer_than_its_budget() -> None:
    too_long = {
        name_of(path): length
        for path in python_files()
        if (length := len(path.read_text().splitlines()))
        > (TEST_LINES if is_test(path) else MODULE_LINES)
    }

    assert too_long == {}


def test_every_file_has_a_meaningful_name() -> None:
    found = {name_of(path) for path in python_files() if path.stem in BANNED}

    # Django loads a database backend by this name.
    assert found == {"gpuplatform/postgresql/base.py"}


def test_every_package_of_ours_and_no_test_folder_is_a_package() -> None:
    folders = {path.parent for path in python_files() if not is_test(path)} - {
        Path(__file__).parents[2]
    }

    assert [name_of(folder) for folder in folders if not (folder / "__init__.py").exists()] == []
    assert [name_of(p) for p in python_files() if is_test(p) and p.name == "__init__.py"] == []


def test_no_file_names_a_path_of_one_machine() -> None:
    # Composed here, so that this file does not contain one.
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
