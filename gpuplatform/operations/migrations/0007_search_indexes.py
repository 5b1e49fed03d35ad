"""The search of the admin finds jobs and what they made by any part of a name, UID or image."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from django.db import migrations

from gpuplatform.lifecycle.searching import add_search_indexes, drop_search_indexes

TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "operations_operation": {
        "operation_id_search": "operation_id::text",
        "operation_object_search": "object_name::text",
    },
    "inventory_stockpool": {
        "stock_pool_name_search": "name::text",
        "stock_pool_image_search": "(spec ->> 'image')",
    },
    "units_gpuunit": {
        "gpu_unit_name_search": "name::text",
        "gpu_unit_uid_search": "uid::text",
        "gpu_unit_image_search": "image::text",
    },
}


def add(_apps: Any, editor: Any) -> None:
    """Make the indexes."""
    for table, texts in TABLES.items():
        add_search_indexes(editor, table, texts)


def drop(_apps: Any, editor: Any) -> None:
    """Take them away."""
    for texts in TABLES.values():
        drop_search_indexes(editor, texts)


class Migration(migrations.Migration):
    """Indexes only."""

    dependencies: ClassVar[list[tuple[str, str]]] = [
        ("operations", "0006_created"),
        ("inventory", "0003_gpuspec"),
        ("units", "0001_initial"),
    ]
    operations: ClassVar[list[Any]] = [migrations.RunPython(add, drop)]
