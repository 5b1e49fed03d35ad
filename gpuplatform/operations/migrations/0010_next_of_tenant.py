"""The index of the next open operation of each tenant. It replaces the index by tenant alone."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("operations", "0009_open_of_tenant")]

    operations = [
        migrations.AddIndex(
            model_name="operation",
            index=models.Index(
                condition=models.Q(("phase__in", frozenset(["Pending", "Running"]))),
                fields=["tenant", "due_at", "id"],
                name="operation_next_of_tenant",
            ),
        ),
        migrations.RemoveIndex(model_name="operation", name="operation_open_of_tenant"),
    ]
