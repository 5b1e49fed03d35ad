"""The permission of operators to view the payloads of invocations."""

from typing import Any

from django.db import migrations

from gpuplatform.tenancy.groups import StaffGroup, grant


def add_permission(apps: Any, _: Any) -> None:
    """Grant it to operators and admins. Viewers see invocations without their payloads."""
    grant(apps, StaffGroup.OPERATOR, ["serverless.payload_invocation"])


class Migration(migrations.Migration):
    dependencies = [("serverless", "0008_webhooks"), ("tenancy", "0004_groups")]

    operations = [migrations.RunPython(add_permission, migrations.RunPython.noop)]
