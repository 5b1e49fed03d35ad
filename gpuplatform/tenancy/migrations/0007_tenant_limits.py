"""The limits of tenants, and the permission of operators to change them."""

from typing import Any

import django.db.models.deletion
from django.db import migrations, models

from gpuplatform.tenancy.groups import StaffGroup, grant


def add_permission(apps: Any, _: Any) -> None:
    """Let operators change the limits of tenants."""
    grant(apps, StaffGroup.OPERATOR, ["tenancy.quota_tenant"])


class Migration(migrations.Migration):
    dependencies = [("tenancy", "0006_tenant_objects")]

    operations = [
        migrations.CreateModel(
            name="TenantLimit",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("resource", models.CharField(max_length=80)),
                ("hard", models.PositiveIntegerField()),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="limits",
                        to="tenancy.tenant",
                    ),
                ),
            ],
            options={
                "ordering": ["tenant", "resource"],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "resource"), name="tenant_limit_is_unique"
                    )
                ],
            },
        ),
        migrations.RunPython(add_permission, migrations.RunPython.noop),
    ]
