"""The file contains names and values. Everything else is an error with its line."""

import os
from pathlib import Path

import pytest

from gpuplatform.configfile import (
    CONFIG_VARIABLE,
    read_config_file,
    take_config_option,
    use_defaults_for_help,
    with_config_file,
)


def read(path: Path, text: str | bytes) -> tuple[dict[str, str], str]:
    """Return the values and the errors of a file with this text."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    file = read_config_file({CONFIG_VARIABLE: str(path)})
    return dict(file.values), "\n".join(file.errors).replace(str(path), "FILE")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("KUBE_MODE: off", "off", id="a word that YAML takes for a truth value"),
        pytest.param("KUBE_MODE: 0o17", "0o17", id="a number"),
        pytest.param("KUBE_MODE: 'a: b'", "a: b", id="quoted"),
        pytest.param("KUBE_MODE: 2026-01-01", "2026-01-01", id="a date"),
        pytest.param("KUBE_MODE:", "", id="nothing"),
        pytest.param("KUBE_MODE: ~", "", id="null"),
    ],
)
def test_a_value_is_the_text_in_the_file(tmp_path: Path, text: str, value: str) -> None:
    assert read(tmp_path / "file", text) == ({"KUBE_MODE": value}, "")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("A: 1\nB: 2\nA: 3", "A (FILE:3): is duplicated", id="twice"),
        pytest.param("A: [1]", "A (FILE:1): must be a name with a single value", id="a list"),
        pytest.param("A: {b: 1}", "A (FILE:1): must be a name with a single value", id="a map"),
        pytest.param("? [A]\n: 1", "the key (FILE:1): must be a name", id="a list as a name"),
        pytest.param("- A", "FILE: must map names to values", id="no map"),
        pytest.param("A: 'x", "FILE: is not YAML: found unexpected end of stream", id="torn"),
        pytest.param(b"A: \xff", "FILE: is not UTF-8", id="bytes"),
        pytest.param("A: " + "x" * 2**20, "FILE: is larger than 1 MiB", id="large"),
    ],
)
def test_an_error_has_its_line(tmp_path: Path, text: str | bytes, fault: str) -> None:
    assert fault in read(tmp_path / "file", text)[1]


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    file = read_config_file({CONFIG_VARIABLE: str(tmp_path / "none")})

    assert file.errors == (f"{tmp_path / 'none'}: cannot be read: No such file or directory",)


def test_an_empty_file_and_no_file_have_no_values(tmp_path: Path) -> None:
    assert read(tmp_path / "file", "# nothing\n") == ({}, "")
    assert read_config_file({}) == read_config_file({CONFIG_VARIABLE: ""})


def test_the_environment_overrides_the_file_unless_it_is_empty(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("A: file\nB: file\nC: file")

    merged = with_config_file({CONFIG_VARIABLE: str(tmp_path / "file"), "A": "mine", "B": ""})

    assert (merged["A"], merged["B"], merged["C"]) == ("mine", "file", "file")


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["run", "--config", "a.yaml", "--x"], id="apart"),
        pytest.param(["run", "--config=a.yaml", "--x"], id="joined"),
        pytest.param(["--config=a.yaml", "run", "--x"], id="in front"),
    ],
)
def test_the_option_is_removed_and_sets_an_absolute_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str]
) -> None:
    monkeypatch.setenv(CONFIG_VARIABLE, "")
    monkeypatch.chdir(tmp_path)

    kept = take_config_option(arguments)

    assert kept == ["run", "--x"]
    assert os.environ[CONFIG_VARIABLE] == str(tmp_path / "a.yaml")


def test_arguments_after_two_dashes_are_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONFIG_VARIABLE, "before")

    assert take_config_option(["run", "--", "--config=x"]) == ["run", "--", "--config=x"]
    assert os.environ[CONFIG_VARIABLE] == "before"


@pytest.mark.parametrize("arguments", [["run", "--config"], ["run", "--config="]])
def test_the_option_without_a_file_is_rejected(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match="--config requires the path"):
        take_config_option(arguments)


@pytest.mark.parametrize(
    ("arguments", "is_help"),
    [
        ([], True),
        (["help", "recover"], True),
        (["recover", "--help"], True),
        (["recover", "-h"], True),
        (["recover", "--dry-run"], False),
        (["dbshell", "--", "-h"], False),
    ],
)
def test_help_needs_no_settings(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], *, is_help: bool
) -> None:
    for name in ("GPUPLATFORM_DEV", "GPUPLATFORM_SECRET_KEY"):
        monkeypatch.setenv(name, "")

    use_defaults_for_help(["manage.py", *arguments])

    assert (os.environ["GPUPLATFORM_DEV"] == "1") == is_help
    assert bool(os.environ["GPUPLATFORM_SECRET_KEY"]) == is_help
