"""Help texts of rows in standard English."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("inventory", "0005_descriptions"),
    ]

    operations = [
        migrations.AlterField(
            model_name="stockpool",
            name="due_at",
            field=models.DateTimeField(
                blank=True, help_text="When work is due next; empty: no work.", null=True
            ),
        ),
        migrations.AlterField(
            model_name="stockpool",
            name="due_seq",
            field=models.BigIntegerField(default=0, help_text="Incremented by every mark."),
        ),
        migrations.AlterField(
            model_name="stockpool",
            name="failures",
            field=models.PositiveIntegerField(
                default=0, help_text="Consecutive failures; the backoff grows with them."
            ),
        ),
        migrations.AlterField(
            model_name="stockpool",
            name="lease_token",
            field=models.UUIDField(
                blank=True, help_text="The worker with this token may record a result.", null=True
            ),
        ),
    ]
