"""The permissions on nodes in the admin."""

from typing import Any

from django.db import migrations

from gpuplatform.tenancy.groups import StaffGroup, grant


def add_permissions(apps: Any, _: Any) -> None:
    """Let viewers view nodes, and operators cordon them."""
    grant(apps, StaffGroup.VIEWER, ["inventory.view_node"])
    grant(apps, StaffGroup.OPERATOR, ["inventory.cordon_node"])


class Migration(migrations.Migration):
    dependencies = [("inventory", "0007_node"), ("tenancy", "0004_groups")]

    operations = [migrations.RunPython(add_permissions, migrations.RunPython.noop)]
