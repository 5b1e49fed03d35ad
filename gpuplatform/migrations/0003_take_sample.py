"""The schedule of the samples."""

from django.db import migrations

from gpuplatform.operations.schedules import Schedule, add_schedules, remove_schedules

SCHEDULES = [
    Schedule(
        "Sample the platform",
        "platform.take_sample",
        30,
        "Keeps what the overview shows: capacity, jobs a minute, time from claim to ready.",
    ),
]


class Migration(migrations.Migration):
    dependencies = [("platform", "0002_prune_samples"), ("samples", "0002_samples")]

    operations = [
        migrations.RunPython(
            lambda apps, _: add_schedules(apps, SCHEDULES),
            lambda apps, _: remove_schedules(apps, SCHEDULES),
        )
    ]
