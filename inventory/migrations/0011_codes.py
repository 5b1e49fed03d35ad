"""Rename the stored cause `NodeRefused`."""

from typing import Any

from django.db import migrations


def rename_cause(apps: Any, _: Any) -> None:
    """Replace the cause of stock pools."""
    pools = apps.get_model("inventory", "StockPool").objects.filter(cause="NodeRefused")
    pools.update(cause="RejectedByNode")


class Migration(migrations.Migration):
    dependencies = [("inventory", "0010_node_drain")]

    operations = [migrations.RunPython(rename_cause, migrations.RunPython.noop)]
