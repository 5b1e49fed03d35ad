"""The index of the open invocations of each tenant, which are counted for its limits."""

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("serverless", "0009_reveal_invocation")]

    operations = [
        migrations.AddIndex(
            model_name="invocation",
            index=models.Index(
                condition=Q(state__in=("Queued", "Running")),
                fields=["tenant"],
                name="invocation_open_of_tenant",
            ),
        ),
    ]
