"""The nodes that are short of GPUs, and the schedule on which they are looked for."""

from django.db import migrations, models

from gpuplatform.operations.schedules import Schedule, add_schedules, remove_schedules

SCHEDULES = [
    Schedule(
        "Compare GPUs of nodes",
        "units.compare_nodes",
        120,
        "Sees which nodes offer fewer GPUs than their pods hold: stock there is kept back.",
    ),
]


class Migration(migrations.Migration):
    dependencies = [("units", "0003_live_phase"), ("operations", "0002_schedules")]

    operations = [
        migrations.CreateModel(
            name="ShortNode",
            fields=[
                (
                    "name",
                    models.CharField(
                        help_text="Name of the node.",
                        max_length=253,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "gpus_offered",
                    models.PositiveIntegerField(help_text="GPUs that it can hand out."),
                ),
                (
                    "gpus_held",
                    models.PositiveIntegerField(help_text="GPUs that pods on it hold."),
                ),
            ],
            options={"ordering": ["name"]},
        ),
        migrations.RunPython(
            lambda apps, _: add_schedules(apps, SCHEDULES),
            lambda apps, _: remove_schedules(apps, SCHEDULES),
        ),
    ]
