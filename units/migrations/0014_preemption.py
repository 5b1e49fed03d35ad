import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("units", "0013_unit_groups")]

    operations = [
        migrations.AddField(
            "gpuunit", "is_preemptible", models.BooleanField(db_default=False, default=False)
        ),
        migrations.AddField(
            "gpuunit", "priority", models.PositiveSmallIntegerField(db_default=0, default=0)
        ),
        migrations.AddField(
            "capacityrequest", "evicted_at", models.DateTimeField(blank=True, null=True)
        ),
        migrations.AddField(
            "capacityrequest",
            "is_after_preemption",
            models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddIndex(
            "gpuunit",
            models.Index(
                condition=models.Q(("deleted_at__isnull", True), ("is_preemptible", True)),
                fields=["spec_name"],
                name="gpu_unit_preemptible",
            ),
        ),
        migrations.AddIndex(
            "capacityrequest",
            models.Index(
                condition=models.Q(("phase", "Open")),
                fields=["spec_name", "tenant", "is_preemptible", "priority", "asked_at", "id"],
                name="capacity_request_lanes",
            ),
        ),
        migrations.AddIndex(
            "capacityrequest",
            models.Index(
                condition=models.Q(("phase", "Open")),
                fields=["spec_name", "resource_name"],
                name="capacity_request_resource",
            ),
        ),
        migrations.CreateModel(
            name="PreemptionNotice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False)),
                (
                    "given_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                ("stops_at", models.DateTimeField()),
                (
                    "unit",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="preemption_notice",
                        to="units.gpuunit",
                    ),
                ),
                (
                    "request",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notices",
                        to="units.capacityrequest",
                    ),
                ),
            ],
            options={"ordering": ["id"]},
        ),
    ]
