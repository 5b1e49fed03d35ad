"""`make bench-nodes`: queries and times of the pages and lists of a large cluster.

Requests them in this process, on PostgreSQL with the rows of 500 nodes with 8 GPUs, and of 4,000
pods: half belong to units, a quarter to stock units, an eighth each to stock pools and to other
programs. Figures of a loaded machine are not comparable. The exit code is 1 if a page exceeds a
limit.
"""

import argparse
import itertools
import logging
from collections.abc import Callable
from typing import Any, Final

from tests.benchmarks.database import database

NODES: Final = 500
GPUS: Final = 8
OWNERS: Final = ("unit", "stock", "unit", "pool", "unit", "stock", "unit", "other")
"""The owners of the pods of a node with one GPU each."""
PRODUCTS: Final = ("NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB")


def fill() -> None:
    """Insert the rows."""
    from tests.factories.inventory import pool_row  # noqa: PLC0415 - after Django is set up
    from tests.factories.node_rows import node_row, pod_of  # noqa: PLC0415 - after Django is set up
    from tests.factories.unit_rows import spec_row, stock_row, unit_row  # noqa: PLC0415 - after Django is set up

    for product in PRODUCTS:
        spec_row(product[7:11].lower(), product=product, gpu=1)
    creates: dict[str, Callable[..., Any]] = {
        "unit": unit_row,
        "stock": stock_row,
        "pool": pool_row,
    }
    numbers = itertools.count()
    for node in range(NODES):
        product = PRODUCTS[node % 2]
        spec_name = product[7:11].lower()
        pods = []
        for gpu, owner in enumerate(OWNERS):
            number = next(numbers)
            if owner == "other":
                pods.append(pod_of(None, name=f"train-{number}"))
                continue
            name = f"{owner}-{node:03d}-{gpu}"
            pods.append(pod_of(creates[owner](name=name, spec_name=spec_name)))
        node_row(f"gpu-{node:03d}", GPUS, pods, product=product)


def main() -> None:
    """Insert the rows, measure the pages, and print the figures."""
    parser = argparse.ArgumentParser(prog="make bench-nodes", description=__doc__)
    parser.add_argument("--requests", type=int, default=30, help="requests per page")
    asked = parser.parse_args()
    with database():
        from django.contrib.auth.models import User  # noqa: PLC0415 - after Django is set up
        from django.test import Client  # noqa: PLC0415 - after Django is set up
        from django.urls import reverse  # noqa: PLC0415 - after Django is set up

        from inventory.models import Node  # noqa: PLC0415 - after Django is set up
        from tests.benchmarks.admin import MAX_MS, MAX_QUERIES, Page, measure  # noqa: PLC0415 - after Django is set up
        from tests.benchmarks.bench import describe_machine, say  # noqa: PLC0415 - after Django is set up

        fill()
        describe_machine(f"{NODES} nodes, {NODES * GPUS} GPUs")
        logging.getLogger("gpuplatform").setLevel(logging.ERROR)  # There is no broker.
        client = Client(headers={"host": "127.0.0.1"})
        client.force_login(User.objects.create_superuser("bench"))
        node = Node.objects.order_by("pk")[0]
        pages = (
            Page("admin: overview", reverse("admin:index")),
            Page("admin: nodes", reverse("admin:inventory_node_changelist")),
            Page("admin: node", reverse("admin:inventory_node_change", args=[node.pk])),
            Page("admin: GPU specs", reverse("admin:inventory_gpuspec_changelist")),
            Page("admin: stock units", reverse("admin:units_stockunit_changelist")),
            Page("admin: GPU units", reverse("admin:units_activeunit_changelist")),
            Page("API: inventory", reverse("inventory")),
            Page("API: nodes", reverse("nodes")),
            Page("API: node", reverse("node", args=[node.name])),
            Page("API: available GPU specs", reverse("available-gpu-specs")),
        )
        found = [measure(client, page, asked.requests) for page in pages]
        for figures in found:
            say(str(figures))
        bad = [figures for figures in found if not figures.is_within]
        say(f"{len(found)} pages, {len(bad)} exceed {MAX_MS:.0f} ms or {MAX_QUERIES} queries")
    raise SystemExit(1 if bad else 0)


if __name__ == "__main__":
    main()
