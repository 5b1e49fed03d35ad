import uuid
from typing import Any

import django.contrib.postgres.constraints
import django.contrib.postgres.fields.ranges
import django.db.models.deletion
import django.db.models.functions.datetime
from django.contrib.postgres.operations import BtreeGistExtension
from django.db import migrations, models

from gpuplatform.tenancy.groups import StaffGroup, grant

PROTECT = """
CREATE FUNCTION usage_record_is_sealed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'usage record % is sealed', OLD.id USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER usage_record_sealed BEFORE UPDATE OR DELETE ON usage_usagerecord
    FOR EACH ROW WHEN (OLD.sealed_at IS NOT NULL) EXECUTE FUNCTION usage_record_is_sealed();
"""
UNPROTECT = """
DROP TRIGGER usage_record_sealed ON usage_usagerecord;
DROP FUNCTION usage_record_is_sealed();
"""


def begin(apps: Any, _: Any) -> None:
    """Begin the first epoch."""
    apps.get_model("usage", "UsageEpoch").objects.create()


def add_permissions(apps: Any, _: Any) -> None:
    """Grant the permission of the page of the usage."""
    grant(apps, StaffGroup.VIEWER, ["usage.view_usagerecord"])


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("tenancy", "0005_max_priority"),
    ]

    operations = [
        # Exclusion constraints with equality need it. It is a trusted extension: the owner of the
        # database can create it.
        BtreeGistExtension(),
        migrations.CreateModel(
            name="TenantDecay",
            fields=[
                (
                    "tenant",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        serialize=False,
                        to="tenancy.tenant",
                    ),
                ),
                ("gpu_seconds", models.FloatField()),
                ("at", models.DateTimeField()),
            ],
            options={
                "ordering": ["tenant"],
            },
        ),
        migrations.CreateModel(
            name="UsageEpoch",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                (
                    "begun_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
            ],
            options={
                "ordering": ["begun_at"],
            },
        ),
        migrations.CreateModel(
            name="UsageInterval",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False)),
                ("kind", models.CharField(default="gpu", max_length=16)),
                ("unit_uid", models.CharField(max_length=36)),
                ("unit_name", models.CharField(max_length=253)),
                ("source_uid", models.CharField(max_length=36)),
                ("part", models.PositiveIntegerField(default=1)),
                ("spec_name", models.CharField(blank=True, max_length=63)),
                ("product", models.CharField(blank=True, max_length=63)),
                ("resource_name", models.CharField(max_length=253)),
                ("gpus", models.PositiveIntegerField()),
                ("cpu_millis", models.PositiveBigIntegerField(default=0)),
                ("memory_mib", models.PositiveBigIntegerField(default=0)),
                ("started_at", models.DateTimeField()),
                ("seen_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("end_basis", models.CharField(blank=True, default="", max_length=9)),
                ("uncertain_seconds", models.FloatField(default=0.0)),
                ("pod_uid", models.CharField(blank=True, default="", max_length=36)),
                ("bound_at", models.DateTimeField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                ("ready_since", models.DateTimeField(blank=True, null=True)),
                ("ready_seconds", models.FloatField(default=0.0)),
                ("changed_from", models.DateTimeField(blank=True, null=True)),
                (
                    "epoch",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, to="usage.usageepoch"
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        to="tenancy.tenant",
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
                "indexes": [
                    models.Index(
                        condition=models.Q(("ended_at__isnull", True)),
                        fields=["id"],
                        name="usage_interval_open",
                    ),
                    models.Index(fields=["unit_uid", "started_at"], name="usage_interval_of_unit"),
                    models.Index(fields=["ended_at"], name="usage_interval_ended"),
                    models.Index(fields=["tenant", "unit_name"], name="usage_interval_of_tenant"),
                    models.Index(
                        condition=models.Q(("changed_from__isnull", False)),
                        fields=["unit_uid"],
                        name="usage_interval_changed",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("source_uid", "part"), name="usage_interval_is_unique"
                    ),
                    django.contrib.postgres.constraints.ExclusionConstraint(
                        expressions=[
                            (models.F("unit_uid"), "="),
                            (
                                models.Func(
                                    "started_at",
                                    "ended_at",
                                    function="tstzrange",
                                    output_field=django.contrib.postgres.fields.ranges.DateTimeRangeField(),
                                ),
                                "&&",
                            ),
                        ],
                        name="usage_intervals_do_not_overlap",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", ["gpu", "storage", "invocation"])),
                        name="usage_interval_kind_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("end_basis", ""), ("ended_at__isnull", True)),
                            models.Q(
                                ("end_basis__in", ["observed", "estimated"]),
                                ("ended_at__gte", models.F("started_at")),
                            ),
                            _connector="OR",
                        ),
                        name="usage_interval_end_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("seen_at__gte", models.F("started_at"))),
                        name="usage_interval_is_seen",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="UsageRecord",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("hour", models.DateTimeField()),
                ("kind", models.CharField(max_length=16)),
                ("subject", models.CharField(max_length=63)),
                ("subject_name", models.CharField(max_length=253)),
                ("spec_name", models.CharField(blank=True, max_length=63)),
                ("product", models.CharField(blank=True, max_length=63)),
                ("resource_name", models.CharField(blank=True, max_length=253)),
                ("gpus", models.PositiveIntegerField(default=0)),
                ("milliseconds", models.BigIntegerField()),
                ("gpu_milliseconds", models.BigIntegerField(default=0)),
                ("cpu_milliseconds", models.BigIntegerField(default=0)),
                ("memory_mib_seconds", models.BigIntegerField(default=0)),
                ("count", models.BigIntegerField(default=0)),
                ("is_estimated", models.BooleanField(default=False)),
                ("sealed_at", models.DateTimeField(blank=True, null=True)),
                (
                    "corrects",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="corrections",
                        to="usage.usagerecord",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        to="tenancy.tenant",
                    ),
                ),
            ],
            options={
                "verbose_name": "usage record",
                "verbose_name_plural": "usage",
                "ordering": ["hour", "id"],
                "indexes": [
                    models.Index(
                        fields=["tenant", "hour"],
                        include=(
                            "kind",
                            "spec_name",
                            "milliseconds",
                            "gpu_milliseconds",
                            "count",
                            "is_estimated",
                        ),
                        name="usage_record_of_tenant",
                    ),
                    models.Index(fields=["hour", "id"], name="usage_record_in_order"),
                    models.Index(
                        condition=models.Q(("sealed_at__isnull", True)),
                        fields=["hour"],
                        name="usage_record_unsealed",
                    ),
                    models.Index(
                        condition=models.Q(("kind", "invocation"), ("sealed_at__isnull", False)),
                        fields=["-hour"],
                        name="usage_record_of_invocations",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("corrects__isnull", True)),
                        fields=("hour", "kind", "subject", "spec_name", "tenant"),
                        name="usage_record_is_unique",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("corrects__isnull", True),
                            ("sealed_at__isnull", False),
                            _connector="OR",
                        ),
                        name="usage_correction_is_sealed",
                    ),
                ],
            },
        ),
        migrations.RunSQL(PROTECT, UNPROTECT),
        migrations.RunPython(begin, migrations.RunPython.noop),
        migrations.RunPython(add_permissions, migrations.RunPython.noop),
    ]
