"""API tokens in the admin. The secret of a token is displayed only once, after its creation."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from django import forms
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.models import ADDITION, LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform import clock
from gpuplatform.adminkit.actions.action import (
    Action,
    ActionRequest,
    ActionResult,
    Values,
)
from gpuplatform.adminkit.actions.forms import datetime_field
from gpuplatform.adminkit.actions.model_admin import ActionAdmin
from gpuplatform.adminkit.detail.panels import Copy, Detail, Fact, Panel, RelatedRow
from gpuplatform.adminkit.display.age import age, age_html, ago_html
from gpuplatform.adminkit.display.badges import Shape, shape_badge
from gpuplatform.adminkit.display.text import counted
from gpuplatform.adminkit.lists.filters import TenantFilter
from gpuplatform.adminkit.lists.model_admin import ModelAdmin, ModelForm
from gpuplatform.tenancy.admin_grants import GrantingForm, with_granter
from gpuplatform.tenancy.models import ApiToken, Scope, Tenant
from gpuplatform.tenancy.permissions import Permission, permissions_of_scopes
from gpuplatform.tenancy.selectors import OPERATE, permissions_of_owner
from gpuplatform.tenancy.services import token_create, token_revoke

RECENT: Final = timedelta(days=1)


def _revoke_consequence(rows: Sequence[ApiToken], _values: Values) -> str:
    if len(rows) == 1:
        used = rows[0].last_used_at
        token = f"'{rows[0]}'"
        usage = f"Last used {age(used, clock.now())} ago." if used else "Never used."
        advice = "create a replacement first"
    else:
        since = clock.now() - RECENT
        recent = sum(row.last_used_at is not None and row.last_used_at > since for row in rows)
        token = f"these {len(rows)} tokens"
        usage = f"{counted(recent, 'token', 'was', 'were')} used in the last 24 hours."
        advice = "create replacements first"
    return (
        f"Requests with {token} are rejected immediately. This cannot be undone; {advice}. {usage}"
    )


def _revoke(request: ActionRequest) -> ActionResult:
    if token_revoke(request.row):
        return ActionResult("Revoked.")
    return ActionResult("Already revoked.", is_replay=True)


REVOKE: Final = Action(
    name="revoke",
    label="Revoke",
    consequence=_revoke_consequence,
    service=_revoke,
    obstacle=lambda row: "Already revoked." if row.revoked_at else "",
    permission="change",
    is_final=True,
    is_direct=True,
)


class TokenForm(GrantingForm):
    """The form for a new token. The platform generates the secret."""

    tenant = forms.ModelChoiceField(
        Tenant.objects.filter(deleted_at__isnull=True).order_by("name"),
        empty_label="Select…",
        help_text="Tenant on whose behalf the token acts.",
    )
    scopes = forms.MultipleChoiceField(
        choices=Scope.choices,
        widget=forms.CheckboxSelectMultiple,
        help_text="Select at least one. A program that only reads needs no other scope.",
    )
    owner = forms.ModelChoiceField(
        User.objects.order_by("username"),
        required=False,
        empty_label="None: a program of the tenant",
        help_text="Member who uses the token. The member's role limits its scopes.",
    )
    expires_at = datetime_field("Expiry date. Leave empty for no expiry.", label="Expires")

    class Meta:
        model = ApiToken
        fields = ("tenant", "name", "scopes", "owner", "expires_at")
        help_texts: ClassVar[dict[str, str]] = {
            "name": "Purpose of the token. Unique within the tenant."
        }

    def clean_expires_at(self) -> datetime | None:
        """Return the expiry, and reject a time in the past."""
        moment: datetime | None = self.cleaned_data["expires_at"]
        if moment is not None and moment <= clock.now():
            msg = "Must be in the future."
            raise forms.ValidationError(msg)
        return moment

    @override
    def clean(self) -> dict[str, Any] | None:
        """Reject scopes that the user of the admin or the owner does not have."""
        cleaned = super().clean()
        scopes, owner = self.cleaned_data.get("scopes", []), self.cleaned_data.get("owner")
        if Scope.OPERATOR in scopes and not self.granter.has_perm(OPERATE):
            msg = "You do not have the permission to create tokens for operators."
            self.add_error("scopes", forms.ValidationError(msg))
        if owner is not None and "tenant" in self.cleaned_data:
            allowed = permissions_of_owner(owner, self.cleaned_data["tenant"])
            if not permissions_of_scopes(scopes) <= allowed | {Permission.TOKEN}:
                msg = f"The role of '{owner}' in the tenant does not allow all of these scopes."
                self.add_error("scopes", forms.ValidationError(msg))
        return cleaned


@admin.register(ApiToken)
class ApiTokenAdmin(ActionAdmin):
    """The list and the pages of the API tokens."""

    form = TokenForm
    row_actions = (REVOKE,)
    object_kind = "Token"
    list_display = (
        *("state", "name", "tenant", "owner_name", "scope_names", "prefix"),
        *("expires", "used", "since"),
    )
    list_display_links = ("name",)
    list_filter = (TenantFilter,)
    search_fields = ("name", "hint")
    search_help_text = "name or prefix"
    empty_text = "No API tokens yet. Create one for each program that calls the API."

    @admin.display(description="State")
    def state(self, row: ApiToken) -> SafeString:
        """Return a badge with the state of the token."""
        return _badge(row)

    @admin.display(description="Owner")
    def owner_name(self, row: ApiToken) -> str:
        """Return the username of the owner."""
        return row.owner.get_username() if row.owner else "none"

    @admin.display(description="Scopes")
    def scope_names(self, row: ApiToken) -> str:
        """Return the scopes of the token."""
        return ", ".join(row.scopes)

    @admin.display(description="Prefix")
    def prefix(self, row: ApiToken) -> str:
        """Return the first characters of the secret."""
        return f"{row.hint}…"

    @admin.display(description="Expires")
    def expires(self, row: ApiToken) -> SafeString:
        """Return the time at which the token expires."""
        return _expiry(row)

    @admin.display(description="Last used")
    def used(self, row: ApiToken) -> SafeString:
        """Return the time at which the token was last used."""
        return ago_html(row.last_used_at) if row.last_used_at else SafeString("never")

    @admin.display(description="Age")
    def since(self, row: ApiToken) -> SafeString:
        """Return the age of the token."""
        return age_html(row.created_at)

    @override
    def line(self, row: ApiToken) -> RelatedRow:
        return RelatedRow(
            badge=_badge(row),
            name=row.name,
            url=reverse("admin:tenancy_apitoken_change", args=[row.pk]),
            text=f"{row.hint}…, tenant {row.tenant}, scopes: {', '.join(row.scopes)}",
            since=age_html(row.created_at),
        )

    @override
    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).select_related("tenant", "owner")

    @override
    def detail(self, row: ApiToken) -> Detail:
        creator = LogEntry.objects.filter(
            content_type=ContentType.objects.get_for_model(row),
            object_id=row.pk,
            action_flag=ADDITION,
        ).values_list("user__username", flat=True)
        facts = [
            *_facts(row),
            Fact.time("Created", row.created_at),
            Fact("Created by", creator.first() or ""),
            Fact("Last used", self.used(row)),
            Fact.time("Revoked", row.revoked_at),
        ]
        return Detail(
            title=row.name,
            badge=_badge(row),
            since=age_html(row.created_at),
            panel=_panel(row),
            facts=[fact for fact in facts if fact.value],
        )

    @override
    def has_add_permission(self, request: HttpRequest) -> bool:
        return ModelAdmin.has_add_permission(self, request)

    @override
    def offered_permissions(self) -> Mapping[str, str]:
        labels = {"view": "View", "add": "Create", "change": REVOKE.label}
        return labels | {"operate": "Own and create tokens for operators"}

    @override
    def get_form(self, request: HttpRequest, *args: Any, **kwargs: Any) -> type[ModelForm]:
        return with_granter(super().get_form(request, *args, **kwargs), request.user)

    @override
    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Create a token with Django's form. The response contains the secret."""
        return ModelAdmin.add_view(self, request, form_url, extra_context)

    @override
    def save_model(
        self, request: HttpRequest, obj: ApiToken, form: ModelForm, change: bool
    ) -> None:
        created, secret = token_create(
            tenant=obj.tenant,
            name=obj.name,
            scopes=obj.scopes,
            expires_at=obj.expires_at,
            owner=obj.owner,
        )
        obj.pk, obj.hint = created.pk, created.hint
        obj._secret = secret  # type: ignore[attr-defined]  # noqa: SLF001 - for `response_add` only

    @override
    def response_add(
        self, request: HttpRequest, obj: ApiToken, post_url_continue: str | None = None
    ) -> HttpResponse:
        secret: str = obj._secret  # type: ignore[attr-defined]  # noqa: SLF001 - as above
        path = reverse("me")
        # Outside development mode a proxy terminates HTTPS: the token is never sent without it.
        scheme = request.scheme if settings.GPUPLATFORM_DEV else "https"
        url = f"{scheme}://{request.get_host()}{path}"
        copies = [
            Copy("Token", secret),
            Copy("Example", f"curl -H 'Authorization: Bearer {secret}' {url}"),
        ]
        context = {
            **self.admin_site.each_context(request),
            "title": f"Token created: {obj.name}",
            "opts": self.opts,
            "detail": {"copies": copies, "facts": _facts(obj)},
            "page_url": self.line(obj).url if self.has_view_permission(request) else "",
        }
        response = TemplateResponse(request, "admin/token_created.html", context)
        response.headers["Cache-Control"] = "no-store"
        return response


def _badge(row: ApiToken) -> SafeString:
    if row.revoked_at:
        return shape_badge(Shape.OFF, "Revoked")
    if _has_expired(row):
        return shape_badge(Shape.OFF, "Expired")
    return shape_badge(Shape.READY, "Valid")


def _has_expired(row: ApiToken) -> bool:
    return row.expires_at is not None and row.expires_at <= clock.now()


def _panel(row: ApiToken) -> Panel | None:
    """Return the panel of a revoked or expired token, or `None` for a valid token."""
    if not row.revoked_at and not _has_expired(row):
        return None
    return Panel(
        shape=Shape.OFF,
        title="Revoked" if row.revoked_at else "Expired",
        text="Requests with this token are rejected.",
        since=age_html(row.revoked_at or row.expires_at),
        next_step="Create a new token for programs that still use this one.",
    )


def _facts(row: ApiToken) -> list[Fact]:
    page = reverse("admin:tenancy_tenant_change", args=[row.tenant_id])
    return [
        Fact("Tenant", row.tenant.name, page),
        Fact("Owner", row.owner.get_username() if row.owner else "none"),
        Fact("Scopes", "; ".join(str(Scope(scope).label) for scope in sorted(row.scopes))),
        Fact("Prefix", f"{row.hint}…"),
        Fact("Expires", _expiry(row)),
    ]


def _expiry(row: ApiToken) -> SafeString:
    return ago_html(row.expires_at) if row.expires_at else SafeString("never")
