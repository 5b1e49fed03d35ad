"""The base of the commands that write files from declarations in the code."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import yaml
from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override


class GeneratedFilesCommand(BaseCommand):
    """Writes files; `--check` only compares. Needs neither a database nor a cluster."""

    requires_system_checks = ()
    source: ClassVar[str]
    """The declaration that the files are generated from, for messages."""
    directory: ClassVar[Path]
    make_target: ClassVar[str] = "make manifests"
    """The command that regenerates the files of the repository."""

    def files(self, directory: Path) -> Mapping[Path, str]:
        """Return the text of each file."""
        raise NotImplementedError

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--check", action="store_true", help="Write nothing; fail if a file differs."
        )
        parser.add_argument("--directory", type=Path, default=self.directory)

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
            msg = f"{names} differs from {self.source}. Run '{self.make_target}'."
            raise CommandError(msg)
        else:
            self.stdout.write(f"All files match {self.source}.")


def yaml_text(header: str, *documents: Mapping[str, Any]) -> str:
    """Return the documents as one YAML file below a header line."""
    return header + yaml.safe_dump_all(
        documents, sort_keys=False, width=100, allow_unicode=True, explicit_start=False
    )


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""
