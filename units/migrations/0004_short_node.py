"""The nodes that are short of GPUs."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("units", "0003_live_phase")]

    operations = [
        migrations.CreateModel(
            name="ShortNode",
            fields=[
                (
                    "name",
                    models.CharField(
                        max_length=253,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "gpus_offered",
                    models.PositiveIntegerField(),
                ),
                (
                    "gpus_held",
                    models.PositiveIntegerField(),
                ),
            ],
            options={"ordering": ["name"]},
        ),
    ]
