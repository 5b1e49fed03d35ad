"""Members of tenants, identities of users, owners of tokens, and the permissions of the admin."""

from typing import Any

import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from gpuplatform.tenancy.groups import StaffGroup, grant


def add_permissions(apps: Any, _: Any) -> None:
    """Grant the view of members to viewers, their management to admins, and own tokens."""
    grant(apps, StaffGroup.VIEWER, ["tenancy.view_membership"])
    grant(apps, StaffGroup.OPERATOR, ["tenancy.operate_apitoken"])
    verbs = ("add", "change", "delete")
    grant(apps, StaffGroup.ADMIN, [f"tenancy.{verb}_membership" for verb in verbs])


class Migration(migrations.Migration):
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("tenancy", "0007_tenant_limits"),
    ]

    operations = [
        migrations.AddField(
            model_name="apitoken",
            name="owner",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="api_tokens",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.CreateModel(
            name="Membership",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False),
                ),
                ("group", models.CharField(blank=True, max_length=150)),
                ("role", models.CharField(max_length=16)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to="tenancy.tenant",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "member",
                "ordering": ["-id"],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "user"), name="membership_of_a_user_is_unique"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("group", ""), _negated=True),
                        fields=("tenant", "group"),
                        name="membership_of_a_group_is_unique",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("group__gt", ""), ("user__isnull", True)),
                            models.Q(("group", ""), ("user__isnull", False)),
                            _connector="OR",
                        ),
                        name="membership_is_of_a_user_or_a_group",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Identity",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False),
                ),
                ("issuer", models.CharField(max_length=255)),
                ("subject", models.CharField(max_length=255)),
                (
                    "groups",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=150), default=list, size=None
                    ),
                ),
                ("seen_at", models.DateTimeField()),
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="identity",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "identities",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("issuer", "subject"), name="identity_is_unique"
                    ),
                ],
            },
        ),
        migrations.RunPython(add_permissions, migrations.RunPython.noop),
    ]
