"""`manage.py makemigrations`: create migrations of the schema, without the texts of fields."""

from typing import Any

from django.core.management.commands.makemigrations import Command as DjangoCommand
from typing_extensions import override

from gpuplatform.management.schema import texts_ignored


class Command(DjangoCommand):
    """The command of Django, which ignores the texts of fields."""

    @override
    def handle(self, *args: Any, **options: Any) -> Any:
        with texts_ignored():
            return super().handle(*args, **options)
