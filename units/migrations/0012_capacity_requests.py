import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("operations", "0008_trace_id"),
        ("tenancy", "0004_groups"),
        ("units", "0011_withheld_stock"),
    ]

    operations = [
        migrations.CreateModel(
            name="CapacityRequest",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False)),
                ("spec_name", models.CharField(max_length=63)),
                ("count", models.PositiveIntegerField(db_default=1, default=1)),
                ("priority", models.PositiveSmallIntegerField(db_default=0, default=0)),
                ("is_preemptible", models.BooleanField(db_default=False, default=False)),
                ("resource_name", models.CharField(blank=True, db_default="", max_length=253)),
                ("phase", models.CharField(db_default="Open", default="Open", max_length=8)),
                (
                    "asked_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                ("expires_at", models.DateTimeField()),
                ("granted_at", models.DateTimeField(blank=True, null=True)),
                ("ahead", models.PositiveIntegerField(db_default=0, default=0)),
                ("hold_begun_at", models.DateTimeField(blank=True, null=True)),
                ("hold_times", models.PositiveSmallIntegerField(db_default=0, default=0)),
                (
                    "operation",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="capacity_request",
                        to="operations.operation",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="capacity_requests",
                        to="tenancy.tenant",
                    ),
                ),
                (
                    "unit",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="capacity_requests",
                        to="units.gpuunit",
                    ),
                ),
            ],
            options={
                "verbose_name": "capacity request",
                "verbose_name_plural": "capacity queue",
                "ordering": ["id"],
                "indexes": [
                    models.Index(
                        condition=models.Q(("phase", "Open")),
                        fields=["spec_name", "id"],
                        name="capacity_request_open",
                    ),
                    models.Index(
                        condition=models.Q(("granted_at__isnull", False)),
                        fields=["spec_name", "-granted_at"],
                        name="capacity_request_granted",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("phase__in", ["Open", "Granted", "Closed"])),
                        name="capacity_request_phase_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("count__gte", 1), ("priority__lte", 100)),
                        name="capacity_request_is_valid",
                    ),
                ],
            },
        ),
    ]
