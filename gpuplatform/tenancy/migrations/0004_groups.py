"""The groups *viewer*, *operator* and *admin*."""

from typing import Any

from django.db import migrations

from gpuplatform.tenancy.groups import StaffGroup, grant

SEEN = (
    "operations.operation",
    "inventory.gpuspec",
    "inventory.stockpool",
    "units.stockunit",
    "units.activeunit",
    "serverless.function",
    "serverless.invocation",
    "tenancy.tenant",
    "tenancy.apitoken",
)
SCHEDULES = (
    "django_celery_beat.periodictask",
    "django_celery_beat.intervalschedule",
    "django_celery_beat.crontabschedule",
)
DONE = {
    "operations.operation": ("cancel", "retry"),
    "inventory.gpuspec": ("add", "change", "delete", "seed", "target", "pause"),
    "inventory.stockpool": ("add", "scale", "delete", "reconcile"),
    "units.stockunit": ("add", "delete", "reconcile"),
    "units.activeunit": ("stop", "start", "delete", "reconcile"),
    **dict.fromkeys(SCHEDULES, ("add", "change", "delete")),
}
ADMINISTERED = {
    "auth.user": ("add", "change", "delete", "view"),
    "auth.group": ("add", "change", "delete", "view"),
    "tenancy.apitoken": ("add", "change"),
}


def _rights(done: dict[str, tuple[str, ...]]) -> list[str]:
    parts = [(label.partition("."), verbs) for label, verbs in done.items()]
    return [f"{app}.{verb}_{model}" for (app, _, model), verbs in parts for verb in verbs]


def add_groups(apps: Any, _: Any) -> None:
    """Make the three groups."""
    grant(apps, StaffGroup.VIEWER, _rights(dict.fromkeys((*SEEN, *SCHEDULES), ("view",))))
    grant(apps, StaffGroup.OPERATOR, _rights(DONE))
    grant(apps, StaffGroup.ADMIN, _rights(ADMINISTERED))


def remove_groups(apps: Any, _: Any) -> None:
    """Take them out again; who was in them keeps the log-in only."""
    apps.get_model("auth", "Group").objects.filter(name__in=list(StaffGroup)).delete()


class Migration(migrations.Migration):
    dependencies = [
        ("tenancy", "0003_api_token"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [migrations.RunPython(add_groups, remove_groups)]
