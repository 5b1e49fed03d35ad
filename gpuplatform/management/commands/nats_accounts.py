"""`manage.py nats_accounts`: what a NATS server has to be told so that it knows this platform."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from gpuplatform.nats.keys import BadKey, KeyKind, KeyPair
from serverless.queue.credentials import server_configuration


class Command(BaseCommand):
    """Print the accounts as a part of the server's configuration."""

    help = "Prints the accounts for a NATS server's configuration; they hold no secret."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--new-seed",
            action="store_true",
            help="print a new seed for GPUPLATFORM_NATS_SEED instead, and nothing else",
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        if options["new_seed"]:
            self.stdout.write(KeyPair.generate(KeyKind.ACCOUNT).seed)
            return
        try:
            account = KeyPair.from_seed(settings.NATS_SEED, KeyKind.ACCOUNT)
        except BadKey as error:
            why = f"GPUPLATFORM_NATS_SEED {error}; 'manage.py nats_accounts --new-seed' makes one."
            raise CommandError(why) from error
        self.stdout.write(server_configuration(account))
