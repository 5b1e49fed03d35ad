"""Groups of admin users and their permissions, for use in migrations.

A migration adds permissions once and never removes any, so changes by operators are kept.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from django.apps.registry import Apps


class StaffGroup(StrEnum):
    """The built-in groups of admin users."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


_AND_HIGHER: Final[Mapping[StaffGroup, tuple[StaffGroup, ...]]] = {
    StaffGroup.VIEWER: (StaffGroup.VIEWER, StaffGroup.OPERATOR, StaffGroup.ADMIN),
    StaffGroup.OPERATOR: (StaffGroup.OPERATOR, StaffGroup.ADMIN),
    StaffGroup.ADMIN: (StaffGroup.ADMIN,),
}


def grant(apps: Apps, group: StaffGroup, names: Iterable[str]) -> None:
    """Grant permissions to a group and to the groups above it.

    `names` are permission names of Django, such as `inventory.scale_stockpool`. Missing
    permissions are created, since Django creates permissions only after all migrations.
    """
    groups = [
        apps.get_model("auth", "Group").objects.get_or_create(name=one.value)[0]
        for one in _AND_HIGHER[group]
    ]
    permissions = [_permission(apps, name) for name in names]
    for granted in groups:
        granted.permissions.add(*permissions)


def _permission(apps: Apps, name: str) -> Any:
    app_label, _, codename = name.partition(".")
    verb, _, model = codename.partition("_")
    content_type, _ = apps.get_model("contenttypes", "ContentType").objects.get_or_create(
        app_label=app_label, model=model
    )
    permission, _ = apps.get_model("auth", "Permission").objects.get_or_create(
        content_type=content_type, codename=codename, defaults={"name": f"Can {verb} {model}"}
    )
    return permission
