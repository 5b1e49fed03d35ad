"""`manage.py show_settings`: print the effective settings and their origins."""

from typing import Any

from django.core.management.base import BaseCommand
from typing_extensions import override

from gpuplatform.settings.reading import effective_settings


class Command(BaseCommand):
    """The command `show_settings`. It requires neither a database nor a cluster."""

    help = "Prints the effective value and the origin of each setting. Secrets are masked."
    requires_system_checks = ()

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        rows = effective_settings()
        name_width = max(len(row.name) for row in rows)
        origin_width = max(len(row.origin) for row in rows)
        for row in rows:
            line = f"{row.name:<{name_width}}  {row.origin:<{origin_width}}  {row.value}"
            self.stdout.write(line.rstrip())
