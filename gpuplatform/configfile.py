"""The optional YAML file with the settings of a process, by name of the environment variable.

The settings and the development runner read the file before anything else is loaded, so this
module imports neither Django nor the settings. Values are strings, so that `off` and `8080` have
the same meaning in the file and in the environment.
"""

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

CONFIG_VARIABLE: Final = "GPUPLATFORM_CONFIG"
OPTION: Final = "--config"
MAX_BYTES: Final = 1024 * 1024

_HELP_COMMANDS: Final = frozenset({"help", "version", "--version"})
_HELP_OPTIONS: Final = frozenset({"-h", "--help"})


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The values of a file, and the errors in it."""

    path: Path | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    errors: tuple[str, ...] = ()


def read_config_file(environment: Mapping[str, str]) -> ConfigFile:
    """Read the file that the environment names, if any. Errors are returned, not raised."""
    named = environment.get(CONFIG_VARIABLE, "")
    if not named:
        return ConfigFile()
    path = Path(named).expanduser().absolute()
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            return ConfigFile(path, errors=(f"{path}: is larger than 1 MiB",))
        return _parsed(path, text.decode())
    except OSError as error:
        return ConfigFile(path, errors=(f"{path}: cannot be read: {error.strerror}",))
    except UnicodeDecodeError:
        return ConfigFile(path, errors=(f"{path}: is not UTF-8",))
    except yaml.YAMLError as error:
        return ConfigFile(path, errors=(f"{path}: is not YAML: {_first_line(error)}",))


def with_config_file(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with the values of the file as defaults for empty variables."""
    given = {name: value for name, value in environment.items() if value}
    return {**environment, **read_config_file(environment).values, **given}


def take_config_option(arguments: Sequence[str]) -> list[str]:
    """Set the variable from `--config FILE`, and return the remaining arguments.

    Raises:
        SystemExit: If the option has no value.
    """
    kept, rest = [], iter(arguments)
    for argument in rest:
        if argument == "--":
            kept.append(argument)
            break
        name, is_joined, value = argument.partition("=")
        if name != OPTION:
            kept.append(argument)
            continue
        use_config_file(value if is_joined else next(rest, ""))
    return [*kept, *rest]


def use_config_file(path: str) -> None:
    """Set the file for this process and its child processes.

    Raises:
        SystemExit: If the path is empty.
    """
    if not path:
        raise SystemExit(f"The option {OPTION} requires the path of a file.")
    os.environ[CONFIG_VARIABLE] = str(Path(path).expanduser().absolute())


def use_defaults_for_help(arguments: Sequence[str]) -> None:
    """Use development mode if the arguments of `manage.py` only request help.

    The required settings are then not necessary. A help request executes no command.
    """
    before_values = itertools.takewhile(lambda argument: argument != "--", arguments[1:])
    given = list(before_values)
    if not given or given[0] in _HELP_COMMANDS or not _HELP_OPTIONS.isdisjoint(given):
        os.environ["GPUPLATFORM_DEV"] = "1"
        # Otherwise, development mode would store a random key.
        os.environ["GPUPLATFORM_SECRET_KEY"] = "unused"  # noqa: S105 - it signs nothing


def _parsed(path: Path, text: str) -> ConfigFile:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is None:
        return ConfigFile(path)
    if not isinstance(root, yaml.MappingNode):
        error = f"{path}: must map names to values, such as 'GPUPLATFORM_LOG_LEVEL: INFO'"
        return ConfigFile(path, errors=(error,))
    values: dict[str, str] = {}
    errors = tuple(_take(path, root, values))
    return ConfigFile(path, values, errors)


def _take(path: Path, root: yaml.MappingNode, values: dict[str, str]) -> Iterator[str]:
    """Add the valid entries to `values`, and yield the errors."""
    for key, value in root.value:
        place = f"{path}:{key.start_mark.line + 1}"
        name = str(key.value) if isinstance(key, yaml.ScalarNode) else "the key"
        if not (isinstance(key, yaml.ScalarNode) and isinstance(value, yaml.ScalarNode)):
            yield f"{name} ({place}): must be a name with a single value"
        elif name in values:
            yield f"{name} ({place}): is duplicated"
        else:
            values[name] = "" if value.tag.endswith(":null") else str(value.value)


def _first_line(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "it cannot be parsed"
    return f"{problem} in line {mark.line + 1}" if mark else str(problem)
