"""What operators may do about functions and invocations in the admin."""

from typing import Any

from django.db import migrations

from gpuplatform.tenancy.groups import StaffGroup, grant

RIGHTS = (
    "serverless.scale_function",
    "serverless.delete_function",
    "serverless.cancel_invocation",
    "serverless.replay_invocation",
)


def add_rights(apps: Any, _: Any) -> None:
    """Let operators, and admins, do it."""
    grant(apps, StaffGroup.OPERATOR, RIGHTS)


class Migration(migrations.Migration):
    dependencies = [("serverless", "0001_initial"), ("tenancy", "0004_groups")]

    operations = [migrations.RunPython(add_rights, migrations.RunPython.noop)]
