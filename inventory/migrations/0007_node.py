"""The mirror of the nodes, with the pods that hold their GPUs."""

import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("inventory", "0006_warm_images"),
    ]

    operations = [
        migrations.CreateModel(
            name="Node",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=253, unique=True)),
                ("product", models.CharField(blank=True, max_length=63)),
                ("labels", models.JSONField(default=dict)),
                ("capacity", models.JSONField(default=dict)),
                ("allocatable", models.JSONField(default=dict)),
                ("is_present", models.BooleanField(default=True)),
                ("is_ready", models.BooleanField(default=True)),
                ("is_schedulable", models.BooleanField(default=True)),
                ("taints", models.JSONField(default=list)),
                ("pressures", models.JSONField(default=list)),
                ("holders", models.JSONField(default=list)),
                ("is_short", models.BooleanField(default=False)),
                ("resource_version", models.BigIntegerField(default=0)),
                (
                    "changed_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
            ],
            options={"ordering": ["name"]},
        ),
    ]
