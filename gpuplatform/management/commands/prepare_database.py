"""`manage.py prepare_database`: apply the migrations.

Run at each start and by any number of processes at once: a lock in the database lets one process
do the work while the others wait and then find it done.
"""

from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand
from typing_extensions import override

from gpuplatform.locks import Lock, advisory_lock


class Command(BaseCommand):
    """Repeatable; changes nothing where everything is prepared."""

    help = "Migrate the database under a lock."

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        with advisory_lock(Lock.PREPARATION):
            call_command("migrate", interactive=False, verbosity=0, stdout=self.stdout)
