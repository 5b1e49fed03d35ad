"""The schedule of the report."""

from django.db import migrations

from gpuplatform.operations.schedules import Schedule, add_schedules, remove_schedules

SCHEDULES = [
    Schedule(
        "Report the steady state",
        "platform.report_state",
        30,
        "Logs one line: pools, units, operations, queues, and what is down.",
    ),
]


class Migration(migrations.Migration):
    dependencies = [("operations", "0002_schedules")]

    operations = [
        migrations.RunPython(
            lambda apps, _: add_schedules(apps, SCHEDULES),
            lambda apps, _: remove_schedules(apps, SCHEDULES),
        )
    ]
