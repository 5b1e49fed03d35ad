"""`manage.py demo_load`: what the admin looks like with very many rows; development only."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from gpuplatform.dev.demo_rows import PREFIX, is_loaded, load, remove


class Command(BaseCommand):
    """Adds rows and nothing else, to the database of a development data directory alone."""

    help = f"Fill the mirror with rows named '{PREFIX}…'; 0 removes them again."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("number", type=int, help="Rows of each kind; 0: remove them.")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        _refuse_other_databases()
        number: int = options["number"]
        if number < 0:
            raise CommandError("The number of rows has to be 0 or more.")
        if is_loaded():
            self.stdout.write(f"{remove()} rows of an earlier demo load are removed.")
        for there in load(number) if number else ():
            self.stdout.write(f"{there} of {number} rows of each kind", ending="\r")
        if number:
            self.stdout.write(f"\n{number} jobs, pools, stock units, units and changes are there.")


def _refuse_other_databases() -> None:
    """Raise unless the database is the one that `make run` keeps in its data directory."""
    if not settings.GPUPLATFORM_DEV:
        raise CommandError(
            "Demo rows are for development: set GPUPLATFORM_DEV=1 where it is meant."
        )
    where = Path(settings.GPUPLATFORM_DATA)
    password = where / "postgres-password"
    if not password.exists() or not settings.ENVIRONMENT.effective_database_url():
        raise CommandError(f"No platform runs on {where}. Start one with 'make run'.")
    if settings.DATABASES["default"]["PASSWORD"] != password.read_text().strip():
        raise CommandError(
            "DATABASE_URL names another database; demo rows go into that of a development"
            " data directory only. Unset DATABASE_URL, and start the platform with 'make run'."
        )
