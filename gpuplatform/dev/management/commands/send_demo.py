"""`manage.py send_demo`: the demo requests, through the public API of a running platform."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from gpuplatform.dev.embedded.demo import WISHES, DemoRefused, send_demo


class Command(BaseCommand):
    """Safe to repeat: the operation IDs are fixed."""

    help = "Send a few pools (two cannot get ready), stock and a GPU unit to a running platform."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--url", default=f"http://127.0.0.1:{settings.PORT}")
        parser.add_argument("--dry-run", action="store_true", help="Print what would be sent.")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        if options["dry_run"]:
            for wish in WISHES:
                self.stdout.write(f"POST {wish.name}")
            return
        try:
            for line in send_demo(options["url"]):
                self.stdout.write(line)
        except DemoRefused as error:
            raise CommandError(str(error)) from error
