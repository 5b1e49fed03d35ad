"""The phase, the weight and the namespace of tenants, and the permissions to manage tenants."""

from typing import Any

from django.db import migrations, models
from django.db.models.functions import Now

from gpuplatform.tenancy.groups import StaffGroup, grant

PHASES = ("Pending", "Active", "Suspended", "Deleting", "Deleted")
ORIGINS = (
    ("external", "Managed outside of the platform"),
    ("created", "Created by the platform"),
    ("adopted", "Adopted by the platform"),
)


def add_permissions(apps: Any, _: Any) -> None:
    """Let operators create, change, suspend, resume and delete tenants."""
    names = ("add", "change", "suspend", "delete")
    grant(apps, StaffGroup.OPERATOR, [f"tenancy.{name}_tenant" for name in names])


class Migration(migrations.Migration):
    dependencies = [("tenancy", "0005_max_priority")]

    operations = [
        migrations.AddField(
            "tenant", "display_name", models.CharField(blank=True, db_default="", max_length=100)
        ),
        migrations.AddField(
            "tenant",
            "phase",
            models.CharField(
                choices=[(phase, phase) for phase in PHASES],
                db_default="Active",
                default="Active",
                max_length=16,
            ),
        ),
        migrations.AddField(
            "tenant", "weight", models.PositiveSmallIntegerField(db_default=1, default=1)
        ),
        migrations.AddField(
            "tenant",
            "namespace_origin",
            models.CharField(
                choices=ORIGINS, db_default="external", default="external", max_length=16
            ),
        ),
        migrations.AddField(
            "tenant", "namespace_uid", models.CharField(blank=True, db_default="", max_length=36)
        ),
        migrations.AddField(
            "tenant", "failure_code", models.CharField(blank=True, db_default="", max_length=64)
        ),
        migrations.AddField(
            "tenant", "failure_message", models.TextField(blank=True, db_default="")
        ),
        migrations.AddField("tenant", "updated_at", models.DateTimeField(db_default=Now())),
        migrations.AddField("tenant", "deleted_at", models.DateTimeField(blank=True, null=True)),
        migrations.AddConstraint(
            "tenant",
            models.CheckConstraint(
                condition=models.Q(("weight__gte", 1), ("weight__lte", 100)),
                name="tenant_weight_is_valid",
            ),
        ),
        migrations.AddConstraint(
            "tenant",
            models.CheckConstraint(
                condition=models.Q(("phase__in", list(PHASES))), name="tenant_phase_is_known"
            ),
        ),
        migrations.AddConstraint(
            "tenant",
            models.CheckConstraint(
                condition=models.Q(("deleted_at__isnull", False), ("phase", "Deleted"))
                | models.Q(("phase", "Deleted"), _negated=True)
                & models.Q(("deleted_at__isnull", True)),
                name="tenant_deleted_says_when",
            ),
        ),
        migrations.RunPython(add_permissions, migrations.RunPython.noop),
    ]
