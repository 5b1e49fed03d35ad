"""`manage.py prepare_database`: migrations and, in development mode, the admin user.

Run at each start and by any number of processes at once: a lock in the database lets one do the
work while the others wait and then find it done.
"""

import secrets
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand
from typing_extensions import override

from gpuplatform.embedded.data_directory import write_secret
from gpuplatform.locks import Lock, alone

ADMIN = "admin"


class Command(BaseCommand):
    """Repeatable; does nothing where everything is prepared."""

    help = "Migrate the database under a lock; in development mode make the admin user."

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        with alone(Lock.PREPARATION):
            call_command("migrate", interactive=False, verbosity=0, stdout=self.stdout)
            if settings.GPUPLATFORM_DEV:
                # Static files come from where they lie; the empty directory is only looked at.
                Path(settings.STATIC_ROOT).mkdir(parents=True, exist_ok=True)
                self._ensure_admin(Path(settings.GPUPLATFORM_DATA) / "admin-password")

    def _ensure_admin(self, path: Path) -> None:
        """Make the user `admin`, or give it a password again if the file of the first is lost."""
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
        self.stdout.write(f"The log-in of the admin is '{ADMIN}'; its password is in {path}.")
