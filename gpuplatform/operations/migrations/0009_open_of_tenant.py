"""The index of the open operations of each tenant, which are counted for its limits."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("operations", "0008_trace_id")]

    operations = [
        migrations.AddIndex(
            model_name="operation",
            index=models.Index(
                condition=models.Q(("phase__in", frozenset(["Pending", "Running"]))),
                fields=["tenant"],
                name="operation_open_of_tenant",
            ),
        ),
    ]
