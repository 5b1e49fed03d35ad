"""The commands that write a page of docs/ from declarations in the code."""

from pathlib import Path
from typing import Any, ClassVar

from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from gpuplatform.settings.environment import PROJECT_ROOT


class PageCommand(BaseCommand):
    """Writes one page; `--check` only compares. Needs neither a database nor a cluster."""

    requires_system_checks = ()
    page_name: ClassVar[str]
    source: ClassVar[str]
    """What the page is made from, in words."""

    def page(self) -> str:
        """Return the text of the page."""
        raise NotImplementedError

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--check", action="store_true", help="write nothing; fail on a difference"
        )
        parser.add_argument("--file", type=Path, default=PROJECT_ROOT / "docs" / self.page_name)

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["file"]
        page = self.page()
        is_same = path.exists() and path.read_text(encoding="utf-8") == page
        if options["check"]:
            if not is_same:
                msg = f"{path.name} differs from {self.source}. Run 'make docs'."
                raise CommandError(msg)
            self.stdout.write(f"{path.name} is as {self.source} says.")
        elif not is_same:
            path.write_text(page, encoding="utf-8")
            self.stdout.write(f"wrote {path}")
