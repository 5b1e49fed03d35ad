"""People and groups in the admin: who may log in, and who may do what."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from django import forms
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.forms import AdminPasswordChangeForm, AdminUserCreationForm
from django.contrib.auth.models import Group, User
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform.adminkit.actions.action import counted
from gpuplatform.adminkit.display.age import age_html, ago_html
from gpuplatform.adminkit.display.badges import Shape, shape_badge
from gpuplatform.adminkit.display.generics import ManyChoicesField, ModelForm
from gpuplatform.adminkit.lists.choosing import Deletion, PlatformModelAdmin, set_required_message
from gpuplatform.adminkit.lists.filters import YesNoFilter
from gpuplatform.adminkit.site.permissions import RightsField
from gpuplatform.tenancy.groups import StaffGroup

if TYPE_CHECKING:
    PeopleAdmin: TypeAlias = UserAdmin[User]
    PersonCreation: TypeAlias = AdminUserCreationForm[User]
    PasswordForm: TypeAlias = AdminPasswordChangeForm[User]
else:
    PeopleAdmin = UserAdmin
    PersonCreation = AdminUserCreationForm
    PasswordForm = AdminPasswordChangeForm

_MAY: Final = {
    StaffGroup.VIEWER: "sees everything but people and groups",
    StaffGroup.OPERATOR: (
        "acts on stock, units, functions, jobs and schedules, and sees what a viewer does"
    ),
    StaffGroup.ADMIN: "makes people, groups and API tokens, and does what an operator does",
}


def _may(group: Group) -> str:
    """Return what one of the platform's own groups may do, in words; nothing for another one."""
    return next((words for name, words in _MAY.items() if name.value == group.name), "")


class GroupsField(ManyChoicesField):
    """Groups as boxes to be ticked, with what each may do."""

    widget = forms.CheckboxSelectMultiple

    @override
    def label_from_instance(self, obj: Group) -> str:
        words = _may(obj)
        return f"{obj.name}: {words}" if words else obj.name


_NAME: Final = "At most 150 characters: letters, digits and @ . + - _"
_NEXT_PAGE: Final = "What somebody may do is asked for on the next page."
_OTHER_WAY: Final = "Without one, a person comes in only by another way that was set up here."


class NewPersonForm(PersonCreation):
    """Asks for a name and a password; what somebody may do is asked for afterwards."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["username"].help_text = f"{_NAME}. {_NEXT_PAGE}"
        _name_password_fields(self.fields)


class NewPasswordForm(PasswordForm):
    """Asks for the password of somebody else."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _name_password_fields(self.fields)
        self.order_fields(("usable_password",))


def _name_password_fields(fields: dict[str, forms.Field]) -> None:
    """Say what a password is for, and what is missing, in our words."""
    set_required_message(fields)
    by_password = fields.get("usable_password")
    if isinstance(by_password, forms.ChoiceField):
        by_password.label, by_password.help_text = "Logs in", _OTHER_WAY
        by_password.choices = [("true", "by a password"), ("false", "without a password")]
    fields["password2"].label, fields["password2"].help_text = "Password again", ""


class PersonForm(ModelForm):
    """Asks who somebody is, and what they may do."""

    groups = GroupsField(
        Group.objects.order_by("-name"), required=False, help_text="Say what somebody may do."
    )
    user_permissions = RightsField(
        label="Rights",
        help_text="Beside those of the groups. Rights of a group are easier to keep.",
    )

    class Meta:
        model = User
        fields = (
            *("username", "first_name", "last_name", "email"),
            *("is_active", "is_staff", "is_superuser", "groups", "user_permissions"),
        )
        labels: ClassVar[dict[str, str]] = {
            "is_active": "May log in",
            "is_staff": "May see the admin",
            "is_superuser": "May do everything",
        }
        help_texts: ClassVar[dict[str, str]] = {
            "username": _NAME,
            "is_active": "Take it away instead of deleting somebody: what they did keeps a name.",
            "is_staff": "Without it nobody gets in here, whatever else they may do.",
            "is_superuser": "Groups and rights are not asked for then.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        rights = self.fields.get("user_permissions")
        if isinstance(rights, RightsField):
            rights.offer(self.instance.user_permissions.all() if self.instance.pk else None)


class MayLogInFilter(YesNoFilter):
    """Whether somebody may log in at all."""

    title = "may log in"
    parameter_name = "active"
    field = "is_active"
    words = ("Yes", "No")


class MayDoEverythingFilter(YesNoFilter):
    """Whether groups and rights are not asked for."""

    title = "may do everything"
    parameter_name = "superuser"
    field = "is_superuser"
    words = ("Yes", "No")


class PersonAdmin(PlatformModelAdmin, PeopleAdmin):
    """Who may log in here, and by which groups they may do what."""

    form = PersonForm
    add_form = NewPersonForm
    change_password_form = NewPasswordForm
    add_fieldsets = (
        (None, {"fields": ("username", "usable_password", "password1", "password2")}),
    )
    fieldsets = (
        (None, {"fields": ("username", "password_set", "first_name", "last_name", "email")}),
        ("Access", {"fields": ("is_active", "is_staff", "is_superuser", "groups")}),
        ("Rights of this person", {"classes": ("collapse",), "fields": ("user_permissions",)}),
        ("What happened", {"fields": ("last_seen", "made")}),
    )
    readonly_fields = ("password_set", "last_seen", "made")
    filter_horizontal = ()
    is_live_with_actions = True
    list_display = ("state", "username", "may", "since")
    list_display_links = ("username",)
    list_filter = ("groups", MayLogInFilter, MayDoEverythingFilter)
    search_help_text = "name or address"
    sortable_by = ("username",)

    @admin.display(description="State")
    def state(self, row: User) -> SafeString:
        """Return whether somebody may log in here."""
        if not row.is_active:
            return shape_badge(Shape.OFF, "Disabled")
        if not row.is_staff:
            return shape_badge(Shape.OFF, "Not let in here")
        if not (row.is_superuser or row.groups.all() or row.user_permissions.all()):
            return shape_badge(Shape.WAITING, "May do nothing")
        return shape_badge(Shape.READY, "May log in")

    @admin.display(description="Groups")
    def may(self, row: User) -> str:
        """Return the groups, which say what somebody may do."""
        names = ["may do everything"] if row.is_superuser else []
        return ", ".join([*names, *(group.name for group in row.groups.all())]) or "none"

    @admin.display(description="Last log-in", ordering="-last_login")
    def since(self, row: User) -> SafeString:
        """Return when somebody last logged in."""
        return age_html(row.last_login)

    @admin.display(description="Password")
    def password_set(self, row: User) -> SafeString:
        """Return whether there is one, and the way to another."""
        words = "Set" if row.has_usable_password() else "None: nobody logs in with one"
        return format_html('{}. <a class="button" href="../password/">Set a new one</a>', words)

    @admin.display(description="Last log-in")
    def last_seen(self, row: User) -> SafeString:
        """Return when somebody last logged in."""
        return ago_html(row.last_login) if row.last_login else SafeString("never")

    @admin.display(description="Made")
    def made(self, row: User) -> SafeString:
        """Return when somebody was made."""
        return ago_html(row.date_joined)

    @override
    def deletion(self, rows: Sequence[User]) -> Deletion:
        written = LogEntry.objects.filter(user__in=rows).count()
        lost = f" What they did is deleted from the admin log, too: {counted(written, 'line')}."
        return Deletion(
            f"Nobody logs in by {'this name' if len(rows) == 1 else 'these names'} any more; what"
            f" was asked for stays, with the name.{lost if written else ''} Take 'May log in' away"
            " instead to keep the log. It cannot be undone.",
            [(row.username, row.get_full_name()) for row in rows],
        )

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        return super().get_queryset(request).prefetch_related("groups", "user_permissions")


class GroupForm(ModelForm):
    """Asks what the people of a group may do."""

    permissions = RightsField(label="Rights")

    class Meta:
        model = Group
        fields = ("name", "permissions")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        rights = self.fields.get("permissions")
        if isinstance(rights, RightsField):
            rights.offer(self.instance.permissions.all() if self.instance.pk else None)


class PeoplesGroupAdmin(PlatformModelAdmin, GroupAdmin):
    """What people of a group may do."""

    form = GroupForm
    filter_horizontal = ()
    is_live_with_actions = True
    list_display = ("name", "may_do", "people")
    search_help_text = "name"

    @admin.display(description="May")
    def may_do(self, row: Any) -> str:
        """Return what its people may do, or how many rights that are."""
        return _may(row) or counted(row.rights, "right")

    @admin.display(description="People")
    def people(self, row: Group) -> str:
        """Return who is in it."""
        return ", ".join(sorted(person.username for person in row.user_set.all())) or "nobody"

    @override
    def deletion(self, rows: Sequence[Group]) -> Deletion:
        number = len({person.pk for row in rows for person in row.user_set.all()})
        who = {0: "Nobody loses", 1: "1 person loses"}.get(number, f"{number} people lose")
        back = "A deleted group does not come back by itself, at the next start neither."
        if any(_may(row) for row in rows):
            back += (
                " Of the platform's own, a later release may make one again, with those rights"
                " alone that it adds."
            )
        return Deletion(
            f"{who} the rights that come with it; no person is deleted. {back}",
            [(row.name, self.people(row)) for row in rows],
        )

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        rows: QuerySet[Group] = super().get_queryset(request).prefetch_related("user_set")
        return rows.annotate(rights=Count("permissions"))


admin.site.unregister([User, Group])
admin.site.register(User, PersonAdmin)
admin.site.register(Group, PeoplesGroupAdmin)
