"""The permissions to stop and to start groups in the admin."""

from typing import Any

from django.db import migrations

from gpuplatform.tenancy.groups import StaffGroup, grant


def add_permissions(apps: Any, _: Any) -> None:
    """Grant the permissions of the actions of unit groups."""
    grant(apps, StaffGroup.OPERATOR, ["units.stop_unitgroup", "units.start_unitgroup"])


class Migration(migrations.Migration):
    dependencies = [
        ("tenancy", "0004_groups"),
        ("units", "0016_gpus_seen"),
    ]

    operations = [migrations.RunPython(add_permissions, migrations.RunPython.noop)]
