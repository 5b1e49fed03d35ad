"""The resource of a unit's GPUs, and GPU shortages by node and resource.

The table of shortages is created again, because its primary key changes. Its rows are copies of
the cluster, which the controller writes again when it starts.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("units", "0006_cause")]

    operations = [
        migrations.AddField(
            model_name="gpuunit",
            name="resource_name",
            field=models.CharField(
                db_default="nvidia.com/gpu", default="nvidia.com/gpu", max_length=308
            ),
        ),
        migrations.DeleteModel(name="ShortNode"),
        migrations.CreateModel(
            name="ShortNode",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=253)),
                (
                    "resource_name",
                    models.CharField(
                        db_default="nvidia.com/gpu", default="nvidia.com/gpu", max_length=308
                    ),
                ),
                ("gpus_offered", models.PositiveIntegerField()),
                ("gpus_held", models.PositiveIntegerField()),
            ],
            options={
                "ordering": ["name", "resource_name"],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("name", "resource_name"), name="short_node_of_resource"
                    )
                ],
            },
        ),
    ]
