"""`manage.py prepare_database`: apply the migrations and update the beat schedules.

Any number of processes can run it at the same time. A lock in the database ensures that one
process does the work while the others wait.
"""

from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand
from typing_extensions import override

from gpuplatform.locks import Lock, advisory_lock
from gpuplatform.schedules.sync import sync_schedules


class Command(BaseCommand):
    """The command `prepare_database`. Idempotent."""

    help = "Applies the migrations and updates the beat schedules while it holds a lock."

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        with advisory_lock(Lock.PREPARATION):
            call_command("migrate", interactive=False, verbosity=0, stdout=self.stdout)
            sync_schedules()
