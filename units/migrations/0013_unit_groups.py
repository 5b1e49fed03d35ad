from typing import Any

from django.db import migrations, models

from gpuplatform.tenancy.groups import StaffGroup, grant


def add_permissions(apps: Any, _: Any) -> None:
    """Grant the permissions of the page of unit groups."""
    grant(apps, StaffGroup.VIEWER, ["units.view_unitgroup"])
    grant(apps, StaffGroup.OPERATOR, ["units.delete_unitgroup"])


class Migration(migrations.Migration):
    dependencies = [
        ("tenancy", "0004_groups"),
        ("units", "0012_capacity_requests"),
    ]

    operations = [
        migrations.CreateModel(
            name="UnitGroup",
            fields=[],
            options={
                "verbose_name": "unit group",
                "ordering": ["-id"],
                "proxy": True,
                "indexes": [],
                "constraints": [],
            },
            bases=("units.gpuunit",),
        ),
        migrations.AddField(
            model_name="gpuunit",
            name="group_name",
            field=models.CharField(blank=True, db_default="", max_length=63),
        ),
        migrations.AddField(
            model_name="gpuunit",
            name="group_rank",
            field=models.PositiveSmallIntegerField(blank=True, null=True),
        ),
        migrations.AddIndex(
            model_name="gpuunit",
            index=models.Index(
                fields=["namespace", "group_name", "id"],
                name="gpu_unit_of_group",
                condition=models.Q(
                    ("deleted_at__isnull", True), models.Q(("group_name", ""), _negated=True)
                ),
            ),
        ),
        migrations.RunPython(add_permissions, migrations.RunPython.noop),
    ]
