"""The schedule that forgets samples and runs."""

from django.db import migrations

from gpuplatform.operations.schedules import Schedule, add_schedules, remove_schedules

SCHEDULES = [
    Schedule(
        "Prune samples",
        "platform.prune_samples",
        1800,
        "Forgets old samples of the platform, and all but the newest runs of each schedule.",
    ),
]


class Migration(migrations.Migration):
    dependencies = [("platform", "0001_schedules"), ("samples", "0001_initial")]

    operations = [
        migrations.RunPython(
            lambda apps, _: add_schedules(apps, SCHEDULES),
            lambda apps, _: remove_schedules(apps, SCHEDULES),
        )
    ]
