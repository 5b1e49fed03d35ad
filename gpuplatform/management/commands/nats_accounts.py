"""`manage.py nats_accounts`: print the part of a NATS server's configuration with the accounts."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from gpuplatform.nats.keys import BadKey, KeyKind, KeyPair
from serverless.queue.credentials import server_configuration


class Command(BaseCommand):
    """Print the accounts, or a new seed."""

    help = "Prints the accounts for a NATS server's configuration; they contain no secret."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--new-seed",
            action="store_true",
            help="Print only a new seed for GPUPLATFORM_NATS_SEED.",
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        if options["new_seed"]:
            self.stdout.write(KeyPair.generate(KeyKind.ACCOUNT).seed)
            return
        try:
            account = KeyPair.from_seed(settings.NATS_SEED, KeyKind.ACCOUNT)
        except BadKey as error:
            why = (
                f"GPUPLATFORM_NATS_SEED {error}; 'manage.py nats_accounts --new-seed' prints one."
            )
            raise CommandError(why) from error
        self.stdout.write(server_configuration(account))
