"""GPU shortages are computed from the mirror of the nodes.

The table of shortages stays for one release, because the previous release still writes it. The
index serves the units of a node.
"""

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [
        ("units", "0010_ended"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[migrations.DeleteModel(name="ShortNode")],
        ),
        migrations.AddIndex(
            model_name="gpuunit",
            index=models.Index(
                condition=Q(deleted_at__isnull=True), fields=["node"], name="gpu_unit_of_node"
            ),
        ),
    ]
