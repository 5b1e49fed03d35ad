"""`manage.py seed_stock`: seed stock, like the API."""

import time
import uuid
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from gpuplatform.errors import PlatformError
from gpuplatform.management.arguments import seconds
from gpuplatform.operations.models import Operation
from gpuplatform.operations.phases import ENDED_PHASES, OperationPhase
from gpuplatform.tenancy.actor import acting_as
from gpuplatform.tenancy.selectors import tenant_by_name
from units.requests import StockSeed
from units.services.stock import stock_seed

PAUSE_SECONDS = 0.5


class Command(BaseCommand):
    """The command `seed_stock`. Idempotent if the operationID is given."""

    help = (
        "Seeds stock of a GPU spec of the catalogue. The stock units are created in the"
        " background; see --wait. The command spec_create adds a GPU spec."
    )

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("spec", help="Name of the GPU spec.")
        parser.add_argument("number", type=int, help="Number of stock units to create.")
        parser.add_argument("--cpu", help="CPU of each unit, if it must be checked.")
        parser.add_argument("--memory", help="Memory of each unit, if it must be checked.")
        parser.add_argument("--gpu", type=int, help="GPUs of each unit, if they must be checked.")
        parser.add_argument(
            "--operation-id",
            help="Idempotency key of the request. By default, a new one is generated and printed.",
        )
        parser.add_argument(
            "--wait",
            type=seconds,
            default=0.0,
            metavar="SECONDS",
            help="Maximum time to wait until the operation has ended (default: 0).",
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        given = {key: options[key] for key in ("cpu", "memory", "gpu") if options[key] is not None}
        operation_id = options["operation_id"]
        try:
            body = StockSeed.parse(
                {
                    "operationID": (
                        f"seed-{uuid.uuid4().hex}" if operation_id is None else operation_id
                    ),
                    "specName": options["spec"],
                    "replicas": options["number"],
                    **given,
                }
            )
            with acting_as("manage.py seed_stock"):
                operation = stock_seed(tenant=tenant_by_name(), body=body).operation
        except PlatformError as error:
            raise CommandError(str(error)) from error
        self._report(_ended(operation, options["wait"]))

    def _report(self, operation: Operation) -> None:
        done = f"{operation.progress_done} of {operation.progress_total} created"
        self.stdout.write(f"{operation.operation_id}: {operation.phase}, {done}")
        if operation.phase == OperationPhase.FAILED:
            raise CommandError(operation.error_message)


def _ended(operation: Operation, seconds: float) -> Operation:
    """Wait at most `seconds` until the operation has ended, and return its current state."""
    until = time.monotonic() + seconds
    while operation.phase not in ENDED_PHASES and time.monotonic() < until:
        time.sleep(PAUSE_SECONDS)
        operation.refresh_from_db()
    return operation
