"""`manage.py token_create`: create an API token and print it."""

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from gpuplatform import clock
from gpuplatform.access.services import token_create_recorded
from gpuplatform.errors import NameConflict, NotFound
from gpuplatform.tenancy.actor import acting_as
from gpuplatform.tenancy.models import DEFAULT_TENANT_NAME, Scope
from gpuplatform.tenancy.selectors import tenant_by_name

MAX_DAYS = 3650


class Command(BaseCommand):
    """The command `token_create`. Only the secret is printed to stdout, for use in scripts."""

    help = "Creates an API token and prints it. It cannot be displayed again."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="Name of the token.")
        parser.add_argument(
            "--tenant", default=DEFAULT_TENANT_NAME, help="Name of the tenant (default: default)."
        )
        parser.add_argument(
            "--scope",
            action="append",
            choices=Scope.values,
            help="Scope of the token. Can be repeated (default: user).",
        )
        parser.add_argument(
            "--owner", help="Username of the member who owns the token (default: none)."
        )
        parser.add_argument(
            "--days",
            type=int,
            help="Number of days until the token expires (default: never).",
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        days, name = options["days"], options["name"]
        if days is not None and not 1 <= days <= MAX_DAYS:
            msg = f"--days must be between 1 and {MAX_DAYS}."
            raise CommandError(msg)
        if not name.strip() or len(name) > 63 or not name.isprintable():
            msg = "The name must be 1 to 63 printable characters."
            raise CommandError(msg)
        try:
            with acting_as("manage.py token_create"):
                token, secret = token_create_recorded(
                    tenant=tenant_by_name(options["tenant"]),
                    name=name,
                    scopes=options["scope"] or [Scope.USER],
                    owner=_owner(options["owner"]),
                    expires_at=clock.now() + timedelta(days=days) if days else None,
                )
        except (NameConflict, NotFound) as error:
            raise CommandError(str(error)) from error
        scopes = ", ".join(token.scopes)
        self.stderr.write(f"Token '{token}' of the tenant '{token.tenant}' ({scopes}):")
        self.stdout.write(secret)


def _owner(name: str | None) -> User | None:
    if name is None:
        return None
    user = User.objects.filter(username=name).first()
    if user is None:
        msg = f"The user '{name}' does not exist. Create the user in the admin."
        raise CommandError(msg)
    return user
