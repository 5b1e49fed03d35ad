"""`manage.py prepare_database`: apply the migrations and bring in the beat schedules.

Runs at each start, in any number of processes at the same time: a lock in the database lets one
process do the work; the others wait and then find it done.
"""

from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand
from typing_extensions import override

from gpuplatform.locks import Lock, advisory_lock
from gpuplatform.schedules.sync import sync_schedules


class Command(BaseCommand):
    """Idempotent."""

    help = "Migrates the database and brings in the beat schedules, under a lock."

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        with advisory_lock(Lock.PREPARATION):
            call_command("migrate", interactive=False, verbosity=0, stdout=self.stdout)
            sync_schedules()
