"""User accounts and groups in the admin."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from django import forms
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.forms import AdminPasswordChangeForm, AdminUserCreationForm
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform.adminkit.display.age import age_html, ago_html
from gpuplatform.adminkit.display.badges import Shape, shape_badge
from gpuplatform.adminkit.display.text import counted
from gpuplatform.adminkit.lists.filters import YesNoFilter
from gpuplatform.adminkit.lists.model_admin import (
    Deletion,
    ModelForm,
    PlatformModelAdmin,
    set_required_message,
)
from gpuplatform.adminkit.site.permissions import MultipleModelChoiceField, PermissionsField
from gpuplatform.tenancy.admin_grants import (
    GrantingForm,
    may_change_account,
    may_change_group,
    permissions_with_models,
    with_granter,
)
from gpuplatform.tenancy.groups import StaffGroup
from gpuplatform.tenancy.models import ApiToken

if TYPE_CHECKING:
    PeopleAdmin: TypeAlias = UserAdmin[User]
    PersonCreation: TypeAlias = AdminUserCreationForm[User]
    PasswordForm: TypeAlias = AdminPasswordChangeForm[User]
else:
    PeopleAdmin = UserAdmin
    PersonCreation = AdminUserCreationForm
    PasswordForm = AdminPasswordChangeForm

_SUMMARIES: Final = {
    StaffGroup.VIEWER: "views everything except users and groups",
    StaffGroup.OPERATOR: (
        "has the permissions of a viewer, and manages stock, units, functions, operations and"
        " schedules"
    ),
    StaffGroup.ADMIN: (
        "has the permissions of an operator, and manages users, groups and API tokens"
    ),
}


def _summary(group: Group) -> str:
    """Return the summary of a built-in group, or an empty string for other groups."""
    return next((text for name, text in _SUMMARIES.items() if name.value == group.name), "")


class GroupsField(MultipleModelChoiceField):
    """Check boxes of groups, each with a summary of its permissions."""

    widget = forms.CheckboxSelectMultiple

    @override
    def label_from_instance(self, obj: Group) -> str:
        summary = _summary(obj)
        return f"{obj.name}: {summary}" if summary else obj.name


_NAME: Final = "Up to 150 characters: letters, digits and @ . + - _"
_NEXT_PAGE: Final = "The next page sets the permissions."
_SSO_HELP: Final = "Without a password, the user must log in through SSO."


class NewPersonForm(PersonCreation):
    """The form for the name and the password of a new user."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["username"].help_text = f"{_NAME}. {_NEXT_PAGE}"
        _label_password_fields(self.fields)


class NewPasswordForm(PasswordForm):
    """The form for the new password of a user."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _label_password_fields(self.fields)
        self.order_fields(("usable_password",))


def _label_password_fields(fields: dict[str, forms.Field]) -> None:
    """Set the labels, help texts and error messages of the password fields."""
    set_required_message(fields)
    usable = fields.get("usable_password")
    if isinstance(usable, forms.ChoiceField):
        usable.label, usable.help_text = "Login", _SSO_HELP
        usable.choices = [("true", "with a password"), ("false", "without a password")]
    fields["password2"].label, fields["password2"].help_text = "Confirm password", ""


class PersonForm(GrantingForm):
    """The form for the name and the permissions of a user."""

    groups = GroupsField(
        Group.objects.order_by("-name"),
        required=False,
        help_text="A user has the permissions of all selected groups.",
    )
    user_permissions = PermissionsField(
        label="Permissions",
        help_text="Permissions in addition to the groups. Groups are easier to maintain.",
    )

    class Meta:
        model = User
        fields = (
            *("username", "first_name", "last_name", "email"),
            *("is_active", "is_staff", "is_superuser", "groups", "user_permissions"),
        )
        labels: ClassVar[dict[str, str]] = {
            "is_active": "Active",
            "is_staff": "Admin access",
            "is_superuser": "Superuser",
        }
        help_texts: ClassVar[dict[str, str]] = {
            "username": _NAME,
            "is_active": "Clear this instead of deleting the user, to keep the admin log.",
            "is_staff": "Required to log in to the admin.",
            "is_superuser": "Bypasses all permission checks.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields.get("user_permissions")
        if isinstance(field, PermissionsField):
            field.offer(self.instance.user_permissions.all() if self.instance.pk else ())


class ActiveFilter(YesNoFilter):
    """A filter of users by whether the account is active."""

    title = "active"
    parameter_name = "active"
    field = "is_active"
    labels = ("Yes", "No")


class SuperuserFilter(YesNoFilter):
    """A filter of users by whether they bypass permission checks."""

    title = "superuser"
    parameter_name = "superuser"
    field = "is_superuser"
    labels = ("Yes", "No")


class PersonAdmin(PlatformModelAdmin, PeopleAdmin):
    """The list and the pages of user accounts."""

    form = PersonForm
    add_form = NewPersonForm
    change_password_form = NewPasswordForm
    add_fieldsets = (
        (None, {"fields": ("username", "usable_password", "password1", "password2")}),
    )
    fieldsets = (
        (None, {"fields": ("username", "password_set", "first_name", "last_name", "email")}),
        ("Access", {"fields": ("is_active", "is_staff", "is_superuser", "groups")}),
        (
            "Permissions of this user",
            {"classes": ("collapse",), "fields": ("user_permissions",)},
        ),
        ("Activity", {"fields": ("last_seen", "created")}),
    )
    readonly_fields = ("password_set", "last_seen", "created")
    filter_horizontal = ()
    is_live_with_actions = True
    list_display = ("state", "username", "group_names", "since")
    list_display_links = ("username",)
    list_filter = ("groups", ActiveFilter, SuperuserFilter)
    search_help_text = "name or email address"
    sortable_by = ("username",)

    @override
    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        allowed = super().has_change_permission(request, obj)
        return allowed and (obj is None or may_change_account(request.user, obj))

    @override
    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        allowed = super().has_delete_permission(request, obj)
        return allowed and (obj is None or may_change_account(request.user, obj))

    @override
    def user_change_password(
        self, request: HttpRequest, id: str, form_url: str = ""
    ) -> HttpResponse:
        """Set the password of a user, in the transaction of the entry of the audit log."""
        with transaction.atomic():
            return super().user_change_password(request, id, form_url)

    @override
    def get_form(self, request: HttpRequest, *args: Any, **kwargs: Any) -> type[ModelForm]:
        return with_granter(super().get_form(request, *args, **kwargs), request.user)

    @override
    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> Any:
        """Return the fields without inputs. Only a superuser creates superusers."""
        fields = super().get_readonly_fields(request, obj)
        return fields if request.user.is_superuser else (*fields, "is_superuser")

    @admin.display(description="State")
    def state(self, row: User) -> SafeString:
        """Return a badge with the state of the account."""
        if not row.is_active:
            return shape_badge(Shape.OFF, "Disabled")
        if not row.is_staff:
            return shape_badge(Shape.OFF, "No admin access")
        if not (row.is_superuser or row.groups.all() or row.user_permissions.all()):
            return shape_badge(Shape.WAITING, "No permissions")
        return shape_badge(Shape.READY, "Active")

    @admin.display(description="Groups")
    def group_names(self, row: User) -> str:
        """Return the names of the groups of the user."""
        names = ["superuser"] if row.is_superuser else []
        return ", ".join([*names, *(group.name for group in row.groups.all())]) or "none"

    @admin.display(description="Last login", ordering="-last_login")
    def since(self, row: User) -> SafeString:
        """Return the time since the last login."""
        return age_html(row.last_login)

    @admin.display(description="Password")
    def password_set(self, row: User) -> SafeString:
        """Return whether a password is set, with a link to set a new one."""
        text = "Set" if row.has_usable_password() else "Not set"
        return format_html('{}. <a class="button" href="../password/">Set password</a>', text)

    @admin.display(description="Last login")
    def last_seen(self, row: User) -> SafeString:
        """Return the time of the last login."""
        return ago_html(row.last_login) if row.last_login else SafeString("never")

    @admin.display(description="Created")
    def created(self, row: User) -> SafeString:
        """Return the time at which the account was created."""
        return ago_html(row.date_joined)

    @override
    def deletion(self, rows: Sequence[User]) -> Deletion:
        written = LogEntry.objects.filter(user__in=rows).count()
        lost = (
            f" {written} admin log {'entry is' if written == 1 else 'entries are'} also deleted."
        )
        tokens = ApiToken.objects.filter(owner__in=rows).count()
        own = (
            f" {counted(tokens, 'API token')} of theirs {'is' if tokens == 1 else 'are'} deleted."
        )
        name = "This user" if len(rows) == 1 else "These users"
        return Deletion(
            f"{name} can no longer log in. Their operations are kept with the username."
            f"{own if tokens else ''}{lost if written else ''}"
            " To keep the log, clear 'Active' instead. This cannot be undone.",
            [(row.username, row.get_full_name()) for row in rows],
        )

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        return (
            super()
            .get_queryset(request)
            .prefetch_related(
                Prefetch("groups__permissions", permissions_with_models()),
                Prefetch("user_permissions", permissions_with_models()),
            )
        )


class GroupForm(GrantingForm):
    """The form for the name and the permissions of a group."""

    permissions = PermissionsField(label="Permissions")

    class Meta:
        model = Group
        fields = ("name", "permissions")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields.get("permissions")
        if isinstance(field, PermissionsField):
            field.offer(self.instance.permissions.all() if self.instance.pk else ())


class PlatformGroupAdmin(PlatformModelAdmin, GroupAdmin):
    """The list and the pages of groups."""

    form = GroupForm
    filter_horizontal = ()
    is_live_with_actions = True
    list_display = ("name", "summary", "people")
    search_help_text = "name"

    @override
    def has_change_permission(self, request: HttpRequest, obj: Group | None = None) -> bool:
        allowed = super().has_change_permission(request, obj)
        return allowed and (obj is None or may_change_group(request.user, obj))

    @override
    def has_delete_permission(self, request: HttpRequest, obj: Group | None = None) -> bool:
        allowed = super().has_delete_permission(request, obj)
        return allowed and (obj is None or may_change_group(request.user, obj))

    @override
    def get_form(self, request: HttpRequest, *args: Any, **kwargs: Any) -> type[ModelForm]:
        return with_granter(super().get_form(request, *args, **kwargs), request.user)

    @admin.display(description="Permissions")
    def summary(self, row: Group) -> str:
        """Return the summary of a built-in group, or the number of permissions."""
        return _summary(row) or counted(len(row.permissions.all()), "permission")

    @admin.display(description="Users")
    def people(self, row: Group) -> str:
        """Return the usernames of the members."""
        return ", ".join(sorted(person.username for person in row.user_set.all())) or "none"

    @override
    def deletion(self, rows: Sequence[Group]) -> Deletion:
        members = len({person.pk for row in rows for person in row.user_set.all()})
        people = "1 user loses" if members == 1 else f"{members} users lose"
        again = "The platform does not recreate a deleted group, not even on restart."
        if any(_summary(row) for row in rows):
            again += (
                " A later release can recreate a built-in group, but only with the permissions"
                " that the release adds."
            )
        return Deletion(
            f"{people} the permissions of {'this group' if len(rows) == 1 else 'these groups'}; no"
            f" user is deleted. {again}",
            [(row.name, self.people(row)) for row in rows],
        )

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        rows: QuerySet[Group] = super().get_queryset(request)
        return rows.prefetch_related(
            "user_set", Prefetch("permissions", permissions_with_models())
        )


admin.site.unregister([User, Group])
admin.site.register(User, PersonAdmin)
admin.site.register(Group, PlatformGroupAdmin)
