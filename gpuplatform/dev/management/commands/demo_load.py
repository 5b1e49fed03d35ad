"""`manage.py demo_load`: create many rows to test the admin under load."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from gpuplatform.dev.demo_rows import PREFIX, is_loaded, load, remove


class Command(BaseCommand):
    """The command that creates demo rows in the database of a running development platform."""

    help = f"Replace the demo rows, whose names start with '{PREFIX}'."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("number", type=int, help="Number of rows of each kind; 0 deletes all.")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        _require_development_database()
        number: int = options["number"]
        if number < 0:
            raise CommandError("The number of rows must be 0 or more.")
        if is_loaded():
            self.stdout.write(f"Deleted {remove()} rows of an earlier run.")
        for created in load(number) if number else ():
            self.stdout.write(f"Created {created} of {number} rows of each kind", ending="\r")
        if number:
            self.stdout.write("")


def _require_development_database() -> None:
    """Check that the database belongs to the data directory of `make run`.

    Raises:
        CommandError: If the database is another one, or development mode is off.
    """
    if not settings.GPUPLATFORM_DEV:
        raise CommandError("This command requires development mode. Set GPUPLATFORM_DEV=1.")
    directory = Path(settings.GPUPLATFORM_DATA)
    password = directory / "postgres-password"
    if not password.exists() or not settings.ENVIRONMENT.effective_url("DATABASE_URL"):
        raise CommandError(f"No platform is running in {directory}. Start it with 'make run'.")
    if settings.DATABASES["default"]["PASSWORD"] != password.read_text().strip():
        raise CommandError(
            "DATABASE_URL does not name the database of the development data directory."
            " Unset DATABASE_URL, and start the platform with 'make run'."
        )
