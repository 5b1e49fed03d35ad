"""`manage.py prepare_development`: prepare the database, the admin user and the cluster.

`make run` runs this command at each start.
"""

import secrets
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from gpuplatform.dev.embedded.data_directory import write_secret
from gpuplatform.locks import Lock, advisory_lock

ADMIN = "admin"


class Command(BaseCommand):
    """The command that prepares a development platform. Idempotent."""

    help = "Migrate the database and create the admin user with a random password."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--cluster", action="store_true", help="Also install the CRDs and the namespaces."
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.GPUPLATFORM_DEV:
            raise CommandError("This command requires development mode. Set GPUPLATFORM_DEV=1.")
        call_command("prepare_database", stdout=self.stdout)
        with advisory_lock(Lock.PREPARATION):
            # WhiteNoise requires the directory, but static files are served from the source.
            Path(settings.STATIC_ROOT).mkdir(parents=True, exist_ok=True)
            self._ensure_admin(Path(settings.GPUPLATFORM_DATA) / "admin-password")
        if options["cluster"]:
            call_command("install_cluster", stdout=self.stdout)

    def _ensure_admin(self, path: Path) -> None:
        """Create the user `admin`, or reset its password if the password file is missing."""
        users = get_user_model().objects
        if path.exists() and users.filter(username=ADMIN).exists():
            return
        password = path.read_text().strip() if path.exists() else secrets.token_urlsafe(12)
        write_secret(path, password + "\n")
        user, _is_new = users.get_or_create(
            username=ADMIN, defaults={"is_staff": True, "is_superuser": True}
        )
        user.set_password(password)
        user.save()
        self.stdout.write(f"The admin user is '{ADMIN}'; the password is in {path}.")
