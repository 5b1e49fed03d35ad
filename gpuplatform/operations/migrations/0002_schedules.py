"""The schedules of the write path."""

from django.db import migrations

from gpuplatform.operations.schedules import Schedule, add_schedules, remove_schedules

SCHEDULES = [
    Schedule(
        "Sweep operations",
        "operations.sweep_operations",
        15,
        "Takes up every operation that is due: what a lost message would have done.",
    ),
    Schedule(
        "Prune operations",
        "operations.prune_operations",
        24 * 3600,
        "Forgets operations that ended more than 30 days ago.",
    ),
]


class Migration(migrations.Migration):
    dependencies = [
        ("operations", "0001_initial"),
        ("django_celery_beat", "0019_alter_periodictasks_options"),
    ]

    operations = [
        migrations.RunPython(
            lambda apps, _: add_schedules(apps, SCHEDULES),
            lambda apps, _: remove_schedules(apps, SCHEDULES),
        )
    ]
