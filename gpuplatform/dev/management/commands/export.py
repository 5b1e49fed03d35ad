"""`manage.py export`: write or check the generated files of the repository."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from gpuplatform.dev.generated.files import GENERATED
from gpuplatform.settings.environment import PROJECT_ROOT


class Command(BaseCommand):
    """The command `export`. Requires neither a database nor a cluster."""

    help = "Writes the generated manifests, dashboards and pages."
    requires_system_checks = ()

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "names",
            nargs="*",
            choices=[*GENERATED, []],
            help=f"Files to write: {', '.join(GENERATED)} (default: all).",
        )
        parser.add_argument(
            "--check",
            action="store_true",
            help="Compare the files without writing them. Fails if a file differs.",
        )
        parser.add_argument(
            "--directory",
            type=Path,
            default=PROJECT_ROOT,
            help="Root directory of the files (default: the repository).",
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        stale = {
            path: text
            for name in options["names"] or GENERATED
            for path, text in GENERATED[name]().items()
            if _read(options["directory"] / path) != text
        }
        if options["check"]:
            _check(stale)
        for path, text in stale.items():
            file = options["directory"] / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            self.stdout.write(f"wrote {path}")


def _check(stale: dict[str, str]) -> None:
    """Check that all files match the code.

    Raises:
        CommandError: If a file is missing or differs from the code.
    """
    if stale:
        msg = f"Files that differ from the code: {', '.join(stale)}. Run 'make manifests docs'."
        raise CommandError(msg)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""
