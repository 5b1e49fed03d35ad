"""The optional YAML file of a process: names of environment variables and their values.

The settings and the runner of development mode read it before anything else is loaded, so this
module imports neither Django nor the settings. Values are strings, as in the environment, so that
`off` and `8080` mean the same in both.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

CONFIG_VARIABLE: Final = "GPUPLATFORM_CONFIG"
OPTION: Final = "--config"
MAX_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The values of a file, and its faults."""

    path: Path | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    faults: tuple[str, ...] = ()


def read_config_file(environment: Mapping[str, str]) -> ConfigFile:
    """Read the file that the environment names, if any; its faults are returned, not raised."""
    named = environment.get(CONFIG_VARIABLE, "")
    if not named:
        return ConfigFile()
    path = Path(named).expanduser().absolute()
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            return ConfigFile(path, faults=(f"{path}: larger than 1 MiB",))
        return _parsed(path, text.decode())
    except OSError as error:
        return ConfigFile(path, faults=(f"{path}: cannot be read: {error.strerror}",))
    except UnicodeDecodeError:
        return ConfigFile(path, faults=(f"{path}: not UTF-8",))
    except yaml.YAMLError as error:
        return ConfigFile(path, faults=(f"{path}: not YAML: {_first_line(error)}",))


def with_config_file(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with the file's values as defaults; empty variables are ignored."""
    given = {name: value for name, value in environment.items() if value}
    return {**environment, **read_config_file(environment).values, **given}


def take_config_option(arguments: Sequence[str]) -> list[str]:
    """Remove `--config FILE` from the arguments and set the variable for this file.

    Raises:
        SystemExit: The option has no value.
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
    """Set the file for this process and its children.

    Raises:
        SystemExit: The path is empty.
    """
    if not path:
        raise SystemExit(f"{OPTION} needs the path of a file.")
    os.environ[CONFIG_VARIABLE] = str(Path(path).expanduser().absolute())


def _parsed(path: Path, text: str) -> ConfigFile:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is None:
        return ConfigFile(path)
    if not isinstance(root, yaml.MappingNode):
        fault = f"{path}: must consist of names with values, such as 'GPUPLATFORM_LOG_LEVEL: INFO'"
        return ConfigFile(path, faults=(fault,))
    values: dict[str, str] = {}
    faults = tuple(_take(path, root, values))
    return ConfigFile(path, values, faults)


def _take(path: Path, root: yaml.MappingNode, values: dict[str, str]) -> Iterator[str]:
    """Add the entries to `values`; yield the faults."""
    for key, value in root.value:
        place = f"{path}:{key.start_mark.line + 1}"
        name = str(key.value) if isinstance(key, yaml.ScalarNode) else "the key"
        if not (isinstance(key, yaml.ScalarNode) and isinstance(value, yaml.ScalarNode)):
            yield f"{name} ({place}): must be one name with one value"
        elif name in values:
            yield f"{name} ({place}): given twice"
        else:
            values[name] = "" if value.tag.endswith(":null") else str(value.value)


def _first_line(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "it cannot be parsed"
    return f"{problem} in line {mark.line + 1}" if mark else str(problem)
