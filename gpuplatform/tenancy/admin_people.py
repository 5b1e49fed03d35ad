"""People and groups in the admin: who may log in, and who may do what."""

from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from django import forms
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform.adminkit.age import age_html, ago_html
from gpuplatform.adminkit.badges import Shape, shape_badge
from gpuplatform.adminkit.choosing import ChoosingAdmin
from gpuplatform.adminkit.fields import RightsField
from gpuplatform.adminkit.generics import ManyChoicesField, ModelForm
from gpuplatform.tenancy.groups import StaffGroup

if TYPE_CHECKING:
    PeopleAdmin: TypeAlias = UserAdmin[User]
else:
    PeopleAdmin = UserAdmin

_MAY: Final = {
    StaffGroup.VIEWER: "sees everything but people and groups",
    StaffGroup.OPERATOR: "also acts on stock, units, functions, jobs and schedules",
    StaffGroup.ADMIN: "also makes people, groups and API tokens",
}


class GroupsField(ManyChoicesField):
    """Groups as boxes to be ticked, with what each may do."""

    widget = forms.CheckboxSelectMultiple

    @override
    def label_from_instance(self, obj: Group) -> str:
        words = {name.value: words for name, words in _MAY.items()}.get(obj.name)
        return f"{obj.name}: {words}" if words else obj.name


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
            "username": "At most 150 characters: letters, digits and @ . + - _",
            "is_active": "Take it away instead of deleting somebody: what they did keeps a name.",
            "is_staff": "Without it nobody gets in here, whatever else they may do.",
            "is_superuser": "Groups and rights are not asked for then.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        rights = self.fields.get("user_permissions")
        if isinstance(rights, RightsField):
            rights.offer(self.instance.user_permissions.all() if self.instance.pk else None)


class PersonAdmin(ChoosingAdmin, PeopleAdmin):
    """Who may log in here, and by which groups they may do what."""

    form = PersonForm
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
    list_filter = ("groups", "is_active", "is_superuser")
    search_help_text = "name or address"
    sortable_by = ("username",)

    @admin.display(description="State")
    def state(self, row: User) -> SafeString:
        """Return whether somebody may log in here."""
        if not row.is_active:
            return shape_badge(Shape.OFF, "Disabled")
        if not row.is_staff:
            return shape_badge(Shape.OFF, "Not let in here")
        return shape_badge(Shape.READY, "May log in")

    @admin.display(description="Groups")
    def may(self, row: User) -> str:
        """Return the groups, which say what somebody may do."""
        names = ["everything (superuser)"] if row.is_superuser else []
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
    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        return super().get_queryset(request).prefetch_related("groups")


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


class PeoplesGroupAdmin(ChoosingAdmin, GroupAdmin):
    """What people of a group may do."""

    form = GroupForm
    filter_horizontal = ()
    is_live_with_actions = True
    list_display = ("name", "people")

    @admin.display(description="People")
    def people(self, row: Group) -> str:
        """Return who is in it."""
        return ", ".join(sorted(person.username for person in row.user_set.all())) or "nobody"

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        return super().get_queryset(request).prefetch_related("user_set")


admin.site.unregister([User, Group])
admin.site.register(User, PersonAdmin)
admin.site.register(Group, PeoplesGroupAdmin)
