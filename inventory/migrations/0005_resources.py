"""The extended resources of a GPU spec."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("inventory", "0004_cause")]

    operations = [
        migrations.AddField(
            model_name="gpuspec",
            name="resource_name",
            field=models.CharField(
                db_default="nvidia.com/gpu", default="nvidia.com/gpu", max_length=308
            ),
        ),
        migrations.AddField(
            model_name="gpuspec",
            name="resources",
            field=models.JSONField(blank=True, db_default={}, default=dict),
        ),
    ]
