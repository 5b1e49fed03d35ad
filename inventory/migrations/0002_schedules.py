"""The schedules of the inventory."""

from django.db import migrations

from gpuplatform.operations.schedules import Schedule, add_schedules, remove_schedules

SCHEDULES = [
    Schedule(
        "Sweep stock pools",
        "inventory.sweep_pools",
        15,
        "Takes up every stock pool that is due: what a lost message would have done.",
    ),
    Schedule(
        "Reconcile all stock pools",
        "inventory.reconcile_all",
        600,
        "Compares everything in the cluster with the mirror: what the watch may have missed.",
    ),
    Schedule(
        "Delete leftovers",
        "inventory.delete_leftovers",
        60,
        "Deletes what late writes of ended operations left in the cluster.",
    ),
    Schedule(
        "Prune stock pools",
        "inventory.prune_pools",
        24 * 3600,
        "Forgets stock pools that are gone for more than 30 days.",
    ),
]


class Migration(migrations.Migration):
    dependencies = [("inventory", "0001_initial"), ("operations", "0002_schedules")]

    operations = [
        migrations.RunPython(
            lambda apps, _: add_schedules(apps, SCHEDULES),
            lambda apps, _: remove_schedules(apps, SCHEDULES),
        )
    ]
