"""The manifests of `manifests`: programs in their published shape, as requests for GPU units.

The comment of a file names its source. `omits` lists the fields of the published pod that a
unit does not have; `docs/users/what-a-unit-is.md` has the decision about each of them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).with_name("manifests")


@dataclass(frozen=True)
class Published:
    """A program, and the objects in its namespace that the request references."""

    name: str
    request: dict[str, Any]
    omits: list[str]
    secrets: dict[str, list[str]]
    """The keys of each Secret."""
    config_maps: dict[str, list[str]]
    """The keys of each ConfigMap."""

    @property
    def template(self) -> dict[str, Any]:
        """The template of the request."""
        found: dict[str, Any] = self.request["template"]
        return found


def published() -> list[Published]:
    """Return every manifest, sorted by name."""
    return [_read(path) for path in sorted(FOLDER.glob("*.yaml"))]


def _read(path: Path) -> Published:
    content = yaml.safe_load(path.read_text("utf-8"))
    return Published(
        path.stem,
        content["request"],
        content["omits"],
        content.get("secrets", {}),
        content.get("configMaps", {}),
    )
