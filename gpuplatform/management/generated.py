"""Files that are written from declarations in the code, or compared with them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from django.core.management.base import CommandError


def yaml_text(header: str, *documents: Mapping[str, Any]) -> str:
    """Return the documents as one YAML file below a header line."""
    return header + yaml.safe_dump_all(
        documents, sort_keys=False, width=100, allow_unicode=True, explicit_start=False
    )


def stale_files(wanted: Mapping[Path, str]) -> list[Path]:
    """Return the files that are missing or have another text."""
    return [path for path, text in wanted.items() if _text(path) != text]


def write_files(wanted: Mapping[Path, str]) -> list[Path]:
    """Write the files that differ; return them."""
    stale = stale_files(wanted)
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[path], encoding="utf-8")
    return stale


def check_files(wanted: Mapping[Path, str], source: str) -> None:
    """Return when every file is as `source` declares it.

    Raises:
        CommandError: some file differs; the message names it.
    """
    if stale := stale_files(wanted):
        names = ", ".join(path.name for path in stale)
        msg = f"{names} differs from {source}. Run 'make manifests'."
        raise CommandError(msg)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""
