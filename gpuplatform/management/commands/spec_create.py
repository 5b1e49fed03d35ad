"""`manage.py spec_create`: add a GPU spec to the catalogue, like the API."""

import uuid
from collections.abc import Sequence
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from gpuplatform.errors import PlatformError
from gpuplatform.tenancy.actor import acting_as
from gpuplatform.tenancy.selectors import tenant_by_name
from inventory.products import offered_products, possible_products
from inventory.requests.catalogue import GpuSpecCreate
from inventory.selectors import spec_get
from inventory.services.catalogue import gpu_spec_create

_TEXTS: Final = {
    "cpu": "CPU of each unit as a Kubernetes quantity.",
    "memory": "Memory of each unit as a Kubernetes quantity.",
    "product": "Required GPU product of the nodes (default: any).",
    "resourceName": "Extended resource that --gpu counts (default: nvidia.com/gpu).",
    "description": "Description for users.",
}
"""The help texts of the optional text arguments, by their field names in the API."""


class Command(BaseCommand):
    """The command `spec_create`. Idempotent if the operationID is given."""

    help = "Adds a GPU spec to the catalogue, and prints the GPU products that a unit can get."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="Name of the GPU spec.")
        parser.add_argument(
            "--gpu", type=int, required=True, help="Number of GPUs of each unit, which can be 0."
        )
        for name, text in _TEXTS.items():
            option = "resource-name" if name == "resourceName" else name
            parser.add_argument(f"--{option}", dest=name, help=text)
        parser.add_argument(
            "--warm-target",
            type=int,
            dest="warmTarget",
            help="Number of ready stock units to maintain (default: 0).",
        )
        parser.add_argument(
            "--operation-id",
            help="Idempotency key of the request. By default, a new one is generated and printed.",
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        names = ("name", "gpu", "warmTarget", *_TEXTS)
        given = {name: options[name] for name in names if options[name] is not None}
        operation_id = options["operation_id"]
        if operation_id is None:
            operation_id = f"spec-{uuid.uuid4().hex}"
        try:
            body = GpuSpecCreate.parse({"operationID": operation_id, **given})
            with acting_as("manage.py spec_create"):
                gpu_spec_create(tenant=tenant_by_name(), body=body)
            products = possible_products(spec_get(body.name), offered_products())
        except PlatformError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{operation_id}: GPU products: {_listed(products)}")


def _listed(products: Sequence[str] | None) -> str:
    if products is None:
        return "unknown"
    return " or ".join(products) or "none"
