"""`manage.py send_demo`: send the demo requests to a running platform."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from gpuplatform.dev.embedded.demo import DEMO_REQUESTS, DemoFailed, send_demo


class Command(BaseCommand):
    """The command that sends the demo requests, whose operationIDs are constant. Idempotent."""

    help = "Create stock pools (two cannot become ready), stock, a GPU unit and a function."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--url", default=f"http://127.0.0.1:{settings.PORT}")
        parser.add_argument("--dry-run", action="store_true", help="Only print the requests.")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        if options["dry_run"]:
            for demo in DEMO_REQUESTS:
                self.stdout.write(f"POST {demo.name}")
            return
        try:
            for line in send_demo(options["url"]):
                self.stdout.write(line)
        except DemoFailed as error:
            raise CommandError(str(error)) from error
