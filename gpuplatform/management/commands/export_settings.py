"""Writes docs/configuration.md from the table of settings; `--check` only compares."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from gpuplatform.management.settings_page import settings_page
from gpuplatform.settings.environment import PROJECT_ROOT


class Command(BaseCommand):
    """Needs neither a database nor a cluster."""

    help = "Write the page about every setting."
    requires_system_checks = ()

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--check", action="store_true", help="write nothing; fail on a difference"
        )
        parser.add_argument("--file", type=Path, default=PROJECT_ROOT / "docs/configuration.md")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["file"]
        page = settings_page()
        is_same = path.exists() and path.read_text(encoding="utf-8") == page
        if options["check"]:
            if not is_same:
                msg = f"{path.name} differs from the table of settings. Run 'make docs'."
                raise CommandError(msg)
            self.stdout.write(f"{path.name} is as the table of settings says.")
        elif not is_same:
            path.write_text(page, encoding="utf-8")
            self.stdout.write(f"wrote {path}")
