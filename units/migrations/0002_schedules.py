"""The schedules of the units."""

from django.db import migrations

from gpuplatform.operations.schedules import Schedule, add_schedules, remove_schedules

SCHEDULES = [
    Schedule(
        "Sweep GPU units",
        "units.sweep_units",
        15,
        "Takes up every GPU unit that is due: what a lost message would have done.",
    ),
    Schedule(
        "Reconcile all GPU units",
        "units.reconcile_all",
        600,
        "Compares everything in the cluster with the mirror: what the watch may have missed.",
    ),
    Schedule(
        "Delete leftovers of GPU units",
        "units.delete_leftovers",
        60,
        "Deletes what late writes of ended operations left in the cluster.",
    ),
    Schedule(
        "Top up stock",
        "units.top_up_stock",
        30,
        "Seeds what is missing to the warm targets, and drains specs that are disabled.",
    ),
    Schedule(
        "Sample capacity",
        "units.sample_capacity",
        300,
        "Keeps how the units of each GPU spec stand, and how long GPUs were idle in stock.",
    ),
    Schedule(
        "Prune GPU units",
        "units.prune_units",
        24 * 3600,
        "Forgets GPU units, their history and capacity samples after 30 days.",
    ),
]


class Migration(migrations.Migration):
    dependencies = [("units", "0001_initial"), ("operations", "0002_schedules")]

    operations = [
        migrations.RunPython(
            lambda apps, _: add_schedules(apps, SCHEDULES),
            lambda apps, _: remove_schedules(apps, SCHEDULES),
        )
    ]
