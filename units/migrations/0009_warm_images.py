import django.contrib.postgres.indexes
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("units", "0008_starts"),
    ]

    operations = [
        migrations.AddField(
            model_name="gpuunit",
            name="is_warm_start",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name="gpuunit",
            name="node",
            field=models.CharField(blank=True, db_default="", max_length=253),
        ),
        migrations.CreateModel(
            name="NodeImages",
            fields=[
                (
                    "name",
                    models.CharField(max_length=253, primary_key=True, serialize=False),
                ),
                ("images", models.JSONField(default=list)),
            ],
            options={
                "verbose_name_plural": "node images",
                "ordering": ["name"],
                "indexes": [
                    django.contrib.postgres.indexes.GinIndex(
                        fields=["images"],
                        name="node_images_images",
                        opclasses=["jsonb_path_ops"],
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="WarmImage",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False),
                ),
                ("spec_name", models.CharField(max_length=63)),
                ("node", models.CharField(max_length=253)),
                ("image", models.CharField(max_length=1024)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("Pulling", "Pulling"),
                            ("Present", "Present"),
                            ("Failed", "Failed"),
                        ],
                        max_length=8,
                    ),
                ),
                (
                    "since",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                ("cause", models.CharField(blank=True, max_length=64)),
                ("message", models.TextField(blank=True)),
            ],
            options={
                "ordering": ["spec_name", "image", "node"],
                "indexes": [models.Index(fields=["image", "state"], name="warm_image_by_image")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("spec_name", "node", "image"), name="warm_image_of_node"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["Pulling", "Present", "Failed"])),
                        name="warm_image_state_is_known",
                    ),
                ],
            },
        ),
    ]
