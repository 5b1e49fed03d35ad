"""The drains of nodes, and the permission to drain in the admin."""

from typing import Any

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

from gpuplatform.tenancy.groups import StaffGroup, grant


def add_permissions(apps: Any, _: Any) -> None:
    """Let operators drain nodes."""
    grant(apps, StaffGroup.OPERATOR, ["inventory.drain_node"])


class Migration(migrations.Migration):
    dependencies = [
        ("inventory", "0009_hold_pause"),
        ("operations", "0008_trace_id"),
        ("tenancy", "0004_groups"),
    ]

    operations = [
        migrations.CreateModel(
            name="NodeDrain",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("node", models.CharField(max_length=253, unique=True)),
                (
                    "started_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                ("deadline", models.DateTimeField(blank=True, null=True)),
                ("notified", models.JSONField(default=list)),
                (
                    "operation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="node_drains",
                        to="operations.operation",
                    ),
                ),
            ],
            options={"ordering": ["node"]},
        ),
        migrations.RunPython(add_permissions, migrations.RunPython.noop),
    ]
