"""`manage.py demo_load`: fill the admin with very many rows."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from gpuplatform.dev.demo_rows import PREFIX, is_loaded, load, remove


class Command(BaseCommand):
    """Adds rows, only to the database of a development data directory."""

    help = f"Create rows named '{PREFIX}…' in the mirror; 0 deletes them."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("number", type=int, help="Number of rows per kind; 0: delete them.")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        _refuse_other_databases()
        number: int = options["number"]
        if number < 0:
            raise CommandError("The number of rows must be 0 or more.")
        if is_loaded():
            self.stdout.write(f"Deleted {remove()} rows of an earlier run.")
        for there in load(number) if number else ():
            self.stdout.write(f"{there} of {number} rows of each kind", ending="\r")
        if number:
            self.stdout.write(f"\nCreated {number} rows of each kind.")


def _refuse_other_databases() -> None:
    """Raise unless the database is that of the data directory of `make run`."""
    if not settings.GPUPLATFORM_DEV:
        raise CommandError("Demo rows are for development only; GPUPLATFORM_DEV=1 is not set.")
    where = Path(settings.GPUPLATFORM_DATA)
    password = where / "postgres-password"
    if not password.exists() or not settings.ENVIRONMENT.effective_url("DATABASE_URL"):
        raise CommandError(f"No platform runs on {where}. Start one with 'make run'.")
    if settings.DATABASES["default"]["PASSWORD"] != password.read_text().strip():
        raise CommandError(
            "DATABASE_URL is another database; demo rows are for that of a development"
            " data directory. Unset DATABASE_URL, and start the platform with 'make run'."
        )
