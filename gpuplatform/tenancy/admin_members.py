"""Members of tenants in the admin."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final
from urllib.parse import urlencode

from django import forms
from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from typing_extensions import override

from gpuplatform.adminkit.detail.panels import Related, RelatedRow
from gpuplatform.adminkit.display.age import age_html
from gpuplatform.adminkit.display.badges import Shape, shape_badge
from gpuplatform.adminkit.display.urls import list_url
from gpuplatform.adminkit.lists.filters import TenantFilter
from gpuplatform.adminkit.lists.model_admin import (
    Deletion,
    ModelForm,
    PlatformModelAdmin,
    column,
)
from gpuplatform.tenancy.models import Membership, Tenant, member_name
from gpuplatform.tenancy.permissions import Role
from gpuplatform.tenancy.phases import TenantPhase
from gpuplatform.tenancy.services import member_set

_SHOWN: Final = 20
"""Maximum number of members on the page of a tenant."""
ROLES_HELP: Final = "The role limits the scopes of the tokens that the member owns."


class MemberForm(ModelForm):
    """The form for the role of a user, or of a group of the identity provider, in a tenant."""

    tenant = forms.ModelChoiceField(
        Tenant.objects.exclude(phase=TenantPhase.DELETED).order_by("name"), empty_label="Select…"
    )
    user = forms.ModelChoiceField(
        User.objects.order_by("username"),
        required=False,
        empty_label="None",
        help_text="A user of the platform, or leave it empty and enter a group.",
    )
    role = forms.ChoiceField(choices=Role.choices, widget=forms.RadioSelect, help_text=ROLES_HELP)

    class Meta:
        model = Membership
        fields = ("tenant", "user", "group", "role")
        help_texts: ClassVar[dict[str, str]] = {
            "group": "Name of a group in the ID token of the login through OpenID Connect."
        }

    @override
    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if self.instance.pk:  # Only the role can change.
            return cleaned
        if bool(self.cleaned_data.get("user")) == bool(self.cleaned_data.get("group")):
            msg = "Select a user or enter a group."
            self.add_error("user", forms.ValidationError(msg))
        return cleaned


def _kind(row: Membership) -> str:
    return "user" if row.user_id else "group of the identity provider"


@admin.register(Membership)
class MembershipAdmin(PlatformModelAdmin):
    """The list and the forms of the members of tenants."""

    form = MemberForm
    list_display = ("name_column", "kind_column", "tenant", "role_column", "since")
    list_display_links = ("name_column",)
    list_filter = (TenantFilter,)
    search_fields = ("user__username", "group")
    search_help_text = "name of the user or of the group"
    sortable_by = ()
    is_live_with_actions = True
    empty_text = "No members yet. Create one for each user who needs tokens of a tenant."

    name_column = column("Member", member_name)
    kind_column = column("Kind", _kind)
    role_column = column("Role", lambda row: row.role)
    since = column("Since", lambda row: age_html(row.created_at))

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[Membership]:
        rows: QuerySet[Membership] = super().get_queryset(request)
        return rows.select_related("user", "tenant")

    @override
    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ("tenant", "user", "group") if obj else ()

    @override
    def save_model(
        self, request: HttpRequest, obj: Membership, form: ModelForm, change: bool
    ) -> None:
        saved = member_set(tenant=obj.tenant, user=obj.user, group=obj.group, role=Role(obj.role))
        obj.pk = saved.pk

    @override
    def deletion(self, rows: Sequence[Membership]) -> Deletion:
        return Deletion(
            "The tokens of the members lose the permissions of the role immediately. They are not"
            " deleted.",
            [(member_name(row), f"{row.role} of {row.tenant}") for row in rows],
        )


def members_table(request: HttpRequest, tenant: Tenant) -> list[Related]:
    """Return the newest members of a tenant as a table of its page, if the user may view them."""
    if not request.user.has_perm("tenancy.view_membership"):
        return []
    rows = tenant.memberships.select_related("user").order_by("-id")[:_SHOWN]
    query = urlencode({str(TenantFilter.parameter_name): tenant.name})
    url = f"{list_url(Membership)}?{query}"
    return [Related("Members", [_line(row) for row in rows], url)]


def _line(row: Membership) -> RelatedRow:
    return RelatedRow(
        badge=shape_badge(Shape.READY, row.get_role_display().partition(":")[0]),
        name=member_name(row),
        url=reverse("admin:tenancy_membership_change", args=[row.pk]),
        text=_kind(row),
        since=age_html(row.created_at),
    )
