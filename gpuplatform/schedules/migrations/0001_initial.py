"""The records of schedules; a database of an earlier release gets those of its schedules."""

from typing import Any

from django.db import migrations, models
from django.db.migrations.recorder import MigrationRecorder

CREATED = {
    ("operations", "0002_schedules"): ("Sweep operations", "Prune operations"),
    ("inventory", "0002_schedules"): (
        "Sweep stock pools",
        "Reconcile all stock pools",
        "Delete leftovers",
        "Prune stock pools",
    ),
    ("units", "0002_schedules"): (
        "Sweep GPU units",
        "Reconcile all GPU units",
        "Delete leftovers of GPU units",
        "Top up stock",
        "Sample capacity",
        "Prune GPU units",
    ),
    ("units", "0004_short_node"): ("Compare GPUs of nodes",),
    ("serverless", "0002_schedules"): ("Prune invocations",),
    ("platform", "0001_schedules"): ("Report the steady state",),
    ("platform", "0002_prune_samples"): ("Prune samples",),
    ("platform", "0003_take_sample"): ("Sample the platform",),
}
"""The schedules that migrations of earlier releases created; most of these migrations are gone."""


def record_earlier_schedules(apps: Any, editor: Any) -> None:
    """Record what earlier releases created, so that a deleted schedule stays deleted.

    Only the description is known to be the platform's: any other field may have been edited.
    """
    applied = MigrationRecorder(editor.connection).applied_migrations()
    if ("operations", "0002_schedules") not in applied:
        return
    tasks = apps.get_model("django_celery_beat", "PeriodicTask").objects
    records = apps.get_model("schedules", "ScheduleRecord").objects
    descriptions = dict(tasks.values_list("name", "description"))
    for migration, names in CREATED.items():
        for name in names if migration in applied else ():
            known = {"description": descriptions[name]} if name in descriptions else {}
            records.create(name=name, values=known)


class Migration(migrations.Migration):
    initial = True

    dependencies = [("django_celery_beat", "0019_alter_periodictasks_options")]

    operations = [
        migrations.CreateModel(
            name="ScheduleRecord",
            fields=[
                (
                    "name",
                    models.CharField(
                        max_length=200,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "values",
                    models.JSONField(
                        default=dict,
                    ),
                ),
            ],
            options={"ordering": ["name"]},
        ),
        migrations.RunPython(record_earlier_schedules, migrations.RunPython.noop),
    ]
