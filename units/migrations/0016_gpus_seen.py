"""The GPUs of pods that were not observed absent, which count to the limits of tenants."""

from django.db import migrations, models

FILL = """
UPDATE units_gpuunit SET gpus_seen = gpu
WHERE role = 'active' AND deleted_at IS NULL AND uid <> '' AND gpu > 0
  AND NOT (phase = 'Stopped' OR is_ended)
"""


class Migration(migrations.Migration):
    dependencies = [("units", "0015_preemption_events")]

    operations = [
        migrations.AddField(
            "gpuunit", "gpus_seen", models.PositiveIntegerField(db_default=0, default=0)
        ),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
        migrations.AddIndex(
            "gpuunit",
            models.Index(
                condition=models.Q(("gpus_seen__gt", 0)),
                fields=["tenant"],
                name="gpu_unit_counted",
            ),
        ),
        migrations.AddIndex(
            "gpuunit",
            models.Index(
                condition=models.Q(("deleted_at__isnull", True), ("role", "active")),
                fields=["tenant"],
                name="gpu_unit_of_tenant",
            ),
        ),
    ]
