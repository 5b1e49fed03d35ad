"""Base class of the commands that generate files from declarations in the code."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import yaml
from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override


class GeneratedFilesCommand(BaseCommand, ABC):
    """Writes or, with `--check`, compares files. Requires neither a database nor a cluster."""

    requires_system_checks = ()
    source: ClassVar[str]
    """Source of the files, for messages."""
    directory: ClassVar[Path]
    make_target: ClassVar[str] = "make manifests"
    """Command that regenerates the files in the repository."""

    @abstractmethod
    def files(self, directory: Path) -> Mapping[Path, str]:
        """Return the text of each file, by path."""

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--check",
            action="store_true",
            help="Compare the files without writing them. Fails if a file differs.",
        )
        parser.add_argument(
            "--directory",
            type=Path,
            default=self.directory,
            help="Directory of the files (default: their directory in the repository).",
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        wanted = self.files(options["directory"])
        stale = [path for path, text in wanted.items() if _read(path) != text]
        if not options["check"]:
            for path in stale:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(wanted[path], encoding="utf-8")
                self.stdout.write(f"wrote {path}")
        elif stale:
            names = ", ".join(path.name for path in stale)
            msg = f"Files that differ from {self.source}: {names}. Run '{self.make_target}'."
            raise CommandError(msg)
        else:
            self.stdout.write(f"All files match {self.source}.")


def yaml_text(header: str, *documents: Mapping[str, Any]) -> str:
    """Return a YAML file with a header line and the documents."""
    return header + yaml.safe_dump_all(
        documents, sort_keys=False, width=100, allow_unicode=True, explicit_start=False
    )


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""
