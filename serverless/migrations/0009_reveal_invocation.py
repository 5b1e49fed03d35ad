"""Let operators read the payloads and results of invocations in the admin, and viewers not."""

from typing import Any

from django.db import migrations

from gpuplatform.tenancy.groups import StaffGroup, grant


def add_rights(apps: Any, _: Any) -> None:
    """Grant the permission to operators and admins, who could read them before."""
    grant(apps, StaffGroup.OPERATOR, ("serverless.reveal_invocation",))


class Migration(migrations.Migration):
    dependencies = [("serverless", "0008_webhooks"), ("tenancy", "0004_groups")]

    operations = [migrations.RunPython(add_rights, migrations.RunPython.noop)]
