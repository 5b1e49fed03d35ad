import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("serverless", "0007_expiry")]

    operations = [
        migrations.AddField(
            model_name="invocation",
            name="on_done_url",
            field=models.CharField(blank=True, db_default="", default="", max_length=2048),
        ),
        migrations.AddField(
            model_name="invocation",
            name="webhook_after",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="invocation",
            name="webhook_attempts",
            field=models.JSONField(
                blank=True, db_default=models.Value([], models.JSONField()), default=list
            ),
        ),
        migrations.AddField(
            model_name="invocation",
            name="webhook_id",
            field=models.UUIDField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="invocation",
            name="webhook_state",
            field=models.CharField(
                blank=True,
                choices=[
                    ("Pending", "Pending"),
                    ("Delivered", "Delivered"),
                    ("Failed", "Failed"),
                ],
                db_default="",
                default="",
                max_length=16,
            ),
        ),
        migrations.AddIndex(
            model_name="invocation",
            index=models.Index(
                condition=~Q(state__in=("Queued", "Running")) & Q(webhook_state="Pending"),
                fields=["webhook_after"],
                name="invocation_webhook",
            ),
        ),
        migrations.AddIndex(
            model_name="invocation",
            index=models.Index(
                condition=Q(webhook_state="Failed"),
                fields=["id"],
                name="invocation_webhook_failed",
            ),
        ),
        migrations.AddConstraint(
            model_name="invocation",
            constraint=models.CheckConstraint(
                condition=Q(on_done_url="", webhook_state="")
                | (~Q(on_done_url="") & Q(webhook_state__in=["Pending", "Delivered", "Failed"])),
                name="invocation_webhook_state_is_known",
            ),
        ),
        migrations.CreateModel(
            name="WebhookSecret",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("salt", models.CharField(max_length=64)),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                (
                    "function",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="webhook_secrets",
                        to="serverless.function",
                    ),
                ),
            ],
            options={"ordering": ["-id"]},
        ),
    ]
