"""`manage.py token_create`: a token for the API, printed once."""

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from gpuplatform import clock
from gpuplatform.errors import NameConflict, NotFound
from gpuplatform.tenancy.models import DEFAULT_TENANT_NAME, Scope
from gpuplatform.tenancy.selectors import tenant_by_name
from gpuplatform.tenancy.services import token_create

MOST_DAYS = 3650


class Command(BaseCommand):
    """Prints the secret alone on standard output, so that a script can keep it."""

    help = "Make an API token and print it. It cannot be shown again."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="What the token is for.")
        parser.add_argument("--tenant", default=DEFAULT_TENANT_NAME)
        parser.add_argument(
            "--scope",
            action="append",
            choices=Scope.values,
            help="What it may do; can be given twice. Without it: user.",
        )
        parser.add_argument("--days", type=int, help="How long it is valid; without it: for ever.")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        days, name = options["days"], options["name"]
        if days is not None and not 1 <= days <= MOST_DAYS:
            msg = f"--days has to be between 1 and {MOST_DAYS}."
            raise CommandError(msg)
        if not name.strip() or len(name) > 63 or not name.isprintable():
            msg = "The name has to be 1 to 63 printable characters."
            raise CommandError(msg)
        try:
            token, secret = token_create(
                tenant=tenant_by_name(options["tenant"]),
                name=name,
                scopes=options["scope"] or [Scope.USER],
                expires_at=clock.now() + timedelta(days=days) if days else None,
            )
        except (NameConflict, NotFound) as error:
            raise CommandError(str(error)) from error
        may = ", ".join(token.scopes)
        self.stderr.write(f"token '{token}' of the tenant '{token.tenant}' ({may}):")
        self.stdout.write(secret)
