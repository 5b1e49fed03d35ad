"""`manage.py verify_audit`: verify the chain of the audit log."""

from itertools import islice
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from gpuplatform.audit.core.chain import Break
from gpuplatform.audit.services.verification import chain_breaks, is_sealed, newest_seal

MAX_BREAKS: Final = 20
"""Maximum number of breaks that are printed."""


class Command(BaseCommand):
    """The command `verify_audit`."""

    help = (
        "Verifies the chain of the audit log and prints where it is broken. Exits with 1 if an"
        " entry was changed, removed or inserted. Prints the newest seal: a later run with --seal"
        " proves that it was not removed. Changes nothing."
    )

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--seal",
            default="",
            metavar="NUMBER:DIGEST",
            help="A seal that an earlier run or a log line has printed, which must exist.",
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        found = list(islice(chain_breaks(), MAX_BREAKS + 1))
        for one in found[:MAX_BREAKS]:
            self.stdout.write(_line(one))
        missing = options["seal"] and not _is_sealed(options["seal"])
        if missing:
            self.stdout.write(f"Seal {options['seal']}: does not exist")
        if found or missing:
            msg = "The audit log was changed at the places above. Compare it with an export."
            raise CommandError(msg)
        newest = newest_seal()
        if newest is None:
            self.stdout.write("The audit log has no seals yet.")
        else:
            digest = f"{newest.number}:{newest.digest.hex()}"
            self.stdout.write(f"The audit log is unchanged. Newest seal: {digest}")


def _line(one: Break) -> str:
    place = f"Seal {one.seal}" if one.entry is None else f"Seal {one.seal}, entry {one.entry}"
    return f"{place}: {one.fault.value}"


def _is_sealed(text: str) -> bool:
    number, _, digest = text.partition(":")
    if not number.isdecimal() or len(number) > 18:
        msg = f"--seal {text!r} is not NUMBER:DIGEST. Copy it from the output of verify_audit."
        raise CommandError(msg)
    return is_sealed(int(number), digest)
