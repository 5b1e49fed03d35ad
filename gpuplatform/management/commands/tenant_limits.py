"""`manage.py tenant_limits`: print the limits of a tenant with their use, or replace them."""

import uuid
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from gpuplatform.errors import PlatformError
from gpuplatform.quotas.selectors import tenant_state
from gpuplatform.quotas.services import tenant_limits_put
from gpuplatform.tenancy.actor import acting_as
from gpuplatform.tenancy.requests import TenantLimitsBody
from gpuplatform.tenancy.selectors import tenant_by_name


class Command(BaseCommand):
    """The command `tenant_limits`. Idempotent if the operationID is given."""

    help = (
        "Prints the limits of a tenant and what it uses. With --set or --none, it replaces all"
        " limits first. Nothing in use is stopped."
    )

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("tenant", help="Name of the tenant.")
        change = parser.add_mutually_exclusive_group()
        change.add_argument(
            "--set",
            nargs="+",
            metavar="RESOURCE=NUMBER",
            help="All limits, such as gpus=8 gpus.h100-1g=4.",
        )
        change.add_argument("--none", action="store_true", help="Remove all limits.")
        parser.add_argument(
            "--operation-id",
            help="Idempotency key of the change. By default, a new one is generated.",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="Validate the limits and change nothing."
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        operation_id = options["operation_id"] or f"limits-{uuid.uuid4().hex}"
        try:
            tenant = tenant_by_name(options["tenant"])
            if options["set"] or options["none"]:
                limits = dict(_limit(text) for text in options["set"] or ())
                body = TenantLimitsBody.parse({"operationID": operation_id, "limits": limits})
                if not options["dry_run"]:
                    with acting_as("manage.py tenant_limits"):
                        tenant_limits_put(tenant=tenant, body=body)
            state = tenant_state(tenant)
        except PlatformError as error:
            raise CommandError(str(error)) from error
        for name, hard in state.limits.items():
            line = f"{name}: {state.used[name]} of {hard} used"
            releasing = state.releasing.get(name, 0)
            self.stdout.write(f"{line}, {releasing} being released" if releasing else line)
        if not state.limits:
            self.stdout.write(f"The tenant '{tenant}' has no limits.")


def _limit(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if not (number.isascii() and number.isdecimal() and len(number) < 12):
        msg = f"'{text}' is not a limit. Write RESOURCE=NUMBER, such as gpus=8."
        raise CommandError(msg)
    return name, int(number)
