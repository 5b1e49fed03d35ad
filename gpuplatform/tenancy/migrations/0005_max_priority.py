"""The limit of the priority, and the permission of operators to change it."""

from typing import Any

from django.db import migrations, models

from gpuplatform.tenancy.groups import StaffGroup, grant


def add_permission(apps: Any, _: Any) -> None:
    """Let operators limit the priority of tenants."""
    grant(apps, StaffGroup.OPERATOR, ["tenancy.limit_tenant"])


class Migration(migrations.Migration):
    dependencies = [("tenancy", "0004_groups")]

    operations = [
        migrations.AddField(
            "tenant", "max_priority", models.PositiveSmallIntegerField(db_default=0, default=0)
        ),
        migrations.AddConstraint(
            "tenant",
            models.CheckConstraint(
                condition=models.Q(("max_priority__lte", 100)), name="tenant_priority_is_valid"
            ),
        ),
        migrations.RunPython(add_permission, migrations.RunPython.noop),
    ]
