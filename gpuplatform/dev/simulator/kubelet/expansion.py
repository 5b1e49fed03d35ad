"""Expands `$(NAME)` and `$$` as a kubelet does in commands, arguments and variables. Pure.

Source: `third_party/forked/golang/expansion` of Kubernetes.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

Manifest: TypeAlias = dict[str, Any]

_REFERENCE: Final = re.compile(r"\$(?:(\$)|\(([^)]*)\))")


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """Return `text` with `$$` replaced by `$`, and `$(NAME)` by the value of a known variable.

    A reference to an unknown variable remains unchanged.
    """
    return _REFERENCE.sub(
        lambda match: "$" if match[1] else variables.get(match[2], match[0]), text
    )


def expanded_environment(container: Manifest) -> dict[str, str]:
    """Return the variables with a value. A value can refer to the variables before it."""
    found: dict[str, str] = {}
    for entry in container.get("env") or []:
        if "valueFrom" not in entry:
            found[entry["name"]] = expanded(str(entry.get("value") or ""), found)
    return found


def expanded_command(container: Manifest) -> list[str]:
    """Return the command and the arguments of the container."""
    variables = expanded_environment(container)
    words = [*(container.get("command") or []), *(container.get("args") or [])]
    return [expanded(word, variables) for word in words]
