"""The rules by which no user of the admin grants more than the user has.

A superuser may grant everything. Another user may not change a superuser or an account with more
permissions, because a user who sets the password of an account can log in with it.
"""

from collections.abc import Collection, Iterable
from typing import Any, ClassVar, Final

from django import forms
from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.db.models import QuerySet
from typing_extensions import override

from gpuplatform.adminkit.lists.model_admin import ModelForm

BEYOND_OWN: Final = "Contains permissions that you do not have: {}."
_SHOWN: Final = 5


def permissions_with_models() -> QuerySet[Permission]:
    """Return all permissions with the models that their names contain, for prefetches."""
    return Permission.objects.select_related("content_type")


def held_permissions(user: User) -> set[Permission]:
    """Return the permissions of an account, even while it is disabled.

    A page that checks several actions prefetches the relations of the account.
    """
    of_groups = (group.permissions.all() for group in user.groups.all())
    return set(user.user_permissions.all()).union(*of_groups)


def names_of(permissions: Iterable[Permission]) -> set[str]:
    """Return the names of permissions, such as `auth.add_user`."""
    return {f"{one.content_type.app_label}.{one.codename}" for one in permissions}


def beyond(granter: User | AnonymousUser, names: Collection[str]) -> set[str]:
    """Return the permissions that a user does not have."""
    return {name for name in names if not granter.has_perm(name)}


def may_change_account(granter: User | AnonymousUser, account: User) -> bool:
    """Return whether a user may change an account, set its password or delete it."""
    if granter.is_superuser:
        return True
    if account.is_superuser:
        return False
    return not beyond(granter, names_of(held_permissions(account)))


def may_change_group(granter: User | AnonymousUser, group: Group) -> bool:
    """Return whether a user may change or delete a group: whether the user has its permissions.

    A login through OpenID Connect finds groups by name, so that a name also grants permissions.
    """
    return not beyond(granter, names_of(group.permissions.all()))


class GrantingForm(ModelForm):
    """A form that rejects permissions and groups beyond the permissions of its user.

    Permissions and groups that the row already has remain valid.
    """

    granter: ClassVar[User | AnonymousUser] = AnonymousUser()

    @override
    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        for name, value in list(self.cleaned_data.items()):
            if name in {"groups", "permissions", "user_permissions"}:
                self._check(name, value)
        return cleaned

    def _check(self, name: str, chosen: Iterable[Any]) -> None:
        current = set(getattr(self.instance, name).all()) if self.instance.pk else set()
        added = [one for one in chosen if one not in current]
        refused = beyond(self.granter, _granted(added))
        if refused:
            shown = ", ".join(sorted(refused)[:_SHOWN])
            more = len(refused) - _SHOWN
            text = f"{shown} and {more} more" if more > 0 else shown
            self.add_error(name, forms.ValidationError(BEYOND_OWN.format(text)))


def with_granter(form: type[ModelForm], granter: User | AnonymousUser) -> type[ModelForm]:
    """Return the class of a form for one user of the admin."""
    made: type[ModelForm] = type(form.__name__, (form,), {"granter": granter})
    made.base_fields = form.base_fields  # Django would create the fields of the model again.
    return made


def _granted(rows: Iterable[Any]) -> set[str]:
    """Return the names of the permissions that groups and permissions grant."""
    groups = [one.pk for one in rows if isinstance(one, Group)]
    own = [one for one in rows if isinstance(one, Permission)]
    of_groups = Permission.objects.filter(group__in=groups).select_related("content_type")
    return names_of(own) | names_of(of_groups)
