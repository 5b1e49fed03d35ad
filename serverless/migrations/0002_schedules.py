"""The schedules of the serverless app."""

from django.db import migrations

from gpuplatform.operations.schedules import Schedule, add_schedules, remove_schedules

SCHEDULES = [
    Schedule(
        "Prune invocations",
        "serverless.prune_invocations",
        3600,
        "Forgets invocations and their results after 7 days, deleted functions after 30.",
    )
]


class Migration(migrations.Migration):
    dependencies = [("serverless", "0001_initial"), ("operations", "0002_schedules")]

    operations = [
        migrations.RunPython(
            lambda apps, _: add_schedules(apps, SCHEDULES),
            lambda apps, _: remove_schedules(apps, SCHEDULES),
        )
    ]
