"""Which delivery a stored end is of: a newer one's stands above it."""

from typing import Any, ClassVar

from django.db import migrations, models
from django.db.models import F


def take_the_latest(apps: Any, schema_editor: Any) -> None:
    """Say of what a worker ended before that it was the latest delivery."""
    rows = apps.get_model("serverless", "Invocation").objects.filter(stored_at__isnull=False)
    rows.update(result_attempt=F("attempts"))


class Migration(migrations.Migration):
    dependencies: ClassVar[list[tuple[str, str]]] = [("serverless", "0004_stored_at")]

    operations: ClassVar[list[Any]] = [
        migrations.AddField(
            model_name="invocation",
            name="result_attempt",
            field=models.PositiveSmallIntegerField(default=0),
        ),
        migrations.RunPython(take_the_latest, migrations.RunPython.noop),
    ]
