"""Rename the stored cause `NodeRefused`, and the column with the time of a capacity request."""

from typing import Any

from django.db import migrations, models

_LANES = models.Index(
    condition=models.Q(("phase", "Open")),
    fields=["spec_name", "tenant", "is_preemptible", "priority", "requested_at", "id"],
    name="capacity_request_lanes",
)
_MODELS = ("GpuUnit", "UnitHistory", "WarmImage")


def rename_cause(apps: Any, _: Any) -> None:
    """Replace the cause of units, their history and images."""
    for name in _MODELS:
        rows = apps.get_model("units", name).objects.filter(cause="NodeRefused")
        rows.update(cause="RejectedByNode")


class Migration(migrations.Migration):
    dependencies = [("units", "0017_group_runs")]

    operations = [
        migrations.RenameField("CapacityRequest", "asked_at", "requested_at"),
        # PostgreSQL renames the column of the index, but Django does not.
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveIndex("CapacityRequest", _LANES.name),
                migrations.AddIndex("CapacityRequest", _LANES),
            ]
        ),
        migrations.RunPython(rename_cause, migrations.RunPython.noop),
    ]
