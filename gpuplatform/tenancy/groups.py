"""Groups of admin users and their permissions; migrations insert them.

A migration adds permissions once and never removes any, so an operator's edit of a group is kept.
Called by migrations only, with their own `apps`.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from django.apps.registry import Apps


class StaffGroup(StrEnum):
    """The groups that every installation has."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


_AND_HIGHER: Final[Mapping[StaffGroup, tuple[StaffGroup, ...]]] = {
    StaffGroup.VIEWER: (StaffGroup.VIEWER, StaffGroup.OPERATOR, StaffGroup.ADMIN),
    StaffGroup.OPERATOR: (StaffGroup.OPERATOR, StaffGroup.ADMIN),
    StaffGroup.ADMIN: (StaffGroup.ADMIN,),
}


def grant(apps: Apps, group: StaffGroup, rights: Iterable[str]) -> None:
    """Grant permissions to a group and to the groups above it.

    `rights` are permissions as Django names them, such as `inventory.scale_stockpool`. A missing
    permission is created: Django creates its own only after all migrations.
    """
    groups = [
        apps.get_model("auth", "Group").objects.get_or_create(name=name.value)[0]
        for name in _AND_HIGHER[group]
    ]
    permissions = [_permission(apps, right) for right in rights]
    for granted in groups:
        granted.permissions.add(*permissions)


def _permission(apps: Apps, right: str) -> Any:
    app_label, _, codename = right.partition(".")
    verb, _, model = codename.partition("_")
    content_type, _ = apps.get_model("contenttypes", "ContentType").objects.get_or_create(
        app_label=app_label, model=model
    )
    permission, _ = apps.get_model("auth", "Permission").objects.get_or_create(
        content_type=content_type, codename=codename, defaults={"name": f"Can {verb} {model}"}
    )
    return permission
