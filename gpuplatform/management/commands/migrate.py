"""`manage.py migrate`: apply migrations, and write the role and the policies of tenants.

The migrations do not contain the texts of fields.
"""

from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands.migrate import Command as DjangoCommand
from typing_extensions import override

from gpuplatform.management.schema import texts_ignored
from gpuplatform.postgresql.row_security import MissingRole, row_security_sync


class Command(DjangoCommand):
    """The command of Django, which ignores the texts of fields.

    The policies are declared in `gpuplatform/postgresql/tenant_tables.py`.
    """

    @override
    def handle(self, *args: Any, **options: Any) -> Any:
        with texts_ignored():
            result = super().handle(*args, **options)
        if not (options["plan"] or options["check_unapplied"]):
            try:
                row_security_sync()
            except MissingRole as error:
                raise CommandError(str(error)) from error
        return result
