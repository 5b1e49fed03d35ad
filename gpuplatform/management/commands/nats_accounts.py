"""`manage.py nats_accounts`: print the accounts section of the NATS server configuration."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from gpuplatform.nats.keys import BadKey, KeyKind, KeyPair
from serverless.queue.credentials import server_configuration


class Command(BaseCommand):
    """The command `nats_accounts`."""

    help = "Prints the accounts section of the NATS server configuration. It contains no secret."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--new-seed",
            action="store_true",
            help="Print a new seed for GPUPLATFORM_NATS_SEED instead.",
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        if options["new_seed"]:
            self.stdout.write(KeyPair.generate(KeyKind.ACCOUNT).seed)
            return
        try:
            account = KeyPair.from_seed(settings.NATS_SEED, KeyKind.ACCOUNT)
        except BadKey as error:
            msg = (
                f"GPUPLATFORM_NATS_SEED {error}. Create a seed with"
                " 'manage.py nats_accounts --new-seed'."
            )
            raise CommandError(msg) from error
        self.stdout.write(server_configuration(account))
