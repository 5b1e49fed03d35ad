"""Groups of people in the admin, and what each may do; put into the database by migrations.

A migration grants once and never takes away, so an edit of a group stays. Called by migrations
only, with their own `apps`.
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
    """Let a group, and those above it, do more.

    `rights` are written as Django asks for them: `inventory.scale_stockpool`. A permission that is
    not there yet is made: Django makes its own only when all migrations have run.
    """
    groups = [
        apps.get_model("auth", "Group").objects.get_or_create(name=name.value)[0]
        for name in _AND_HIGHER[group]
    ]
    permissions = [_permission(apps, right) for right in rights]
    for one in groups:
        one.permissions.add(*permissions)


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
