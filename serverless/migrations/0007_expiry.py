from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("serverless", "0006_cause")]

    operations = [
        migrations.AddField(
            model_name="invocation",
            name="expires_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="invocation",
            name="expires_in_seconds",
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="invocation",
            name="repeated_calls",
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
        migrations.AddIndex(
            model_name="invocation",
            index=models.Index(
                condition=Q(state="Queued", expires_at__isnull=False),
                fields=["expires_at"],
                name="invocation_expiring",
            ),
        ),
        migrations.AddIndex(
            model_name="invocation",
            index=models.Index(
                condition=Q(state="Expired", attempts=0, stream_sequence__isnull=False),
                fields=["id"],
                name="invocation_expired",
            ),
        ),
    ]
