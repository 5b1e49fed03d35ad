"""API tokens in the admin: made, shown once, taken back after a question."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from django import forms
from django.contrib import admin
from django.contrib.admin.models import ADDITION, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform import clock
from gpuplatform.adminkit.actions.action import (
    Action,
    ActionAdmin,
    ActionRequest,
    ActionResult,
    Values,
    counted,
)
from gpuplatform.adminkit.actions.fields import datetime_field
from gpuplatform.adminkit.detail.panels import Copy, Detail, Fact, Panel, RelatedRow
from gpuplatform.adminkit.display.age import age, age_html, ago_html
from gpuplatform.adminkit.display.badges import Shape, shape_badge
from gpuplatform.adminkit.display.generics import ModelAdmin, ModelForm
from gpuplatform.adminkit.lists.filters import TenantFilter
from gpuplatform.tenancy.models import ApiToken, Scope, Tenant
from gpuplatform.tenancy.services import token_create, token_revoke

LATELY: Final = timedelta(days=1)
_TRIED_AT: Final = {Scope.USER.value: "gpu-units", Scope.OPERATOR.value: "jobs"}
"""A list that a token may read, by its scope."""


def _what_ends(rows: Sequence[ApiToken], _values: Values) -> str:
    """Return what stops when tokens are taken back."""
    which = f"'{rows[0]}'" if len(rows) == 1 else f"these {len(rows)} tokens"
    them, used = ("it", _last_use(rows[0])) if len(rows) == 1 else ("them", _uses(rows))
    return (
        f"Whatever calls the API with {which} is refused at once, and nothing gives {them} back:"
        f" what goes on needs a new token first. {used}"
    )


def _last_use(row: ApiToken) -> str:
    used = row.last_used_at
    return f"It was last used {age(used, clock.now())} ago." if used else "It was never used."


def _uses(rows: Sequence[ApiToken]) -> str:
    """Return how many are in use, as far as the last day tells."""
    since = clock.now() - LATELY
    number = sum(row.last_used_at is not None and row.last_used_at > since for row in rows)
    used = counted(number, "token", "was", "were") if number else "None was"
    return f"{used} used in the last day."


def _take_back(asked: ActionRequest) -> ActionResult:
    if token_revoke(asked.row):
        return ActionResult("It is taken back; whatever calls with it is refused.")
    return ActionResult("It was taken back before.", is_replay=True)


TAKE_BACK = Action(
    name="revoke",
    label="Take back",
    consequence=_what_ends,
    service=_take_back,
    obstacle=lambda row: "It is taken back already." if row.revoked_at else "",
    right="change",
    is_final=True,
)


class TokenForm(ModelForm):
    """Asks what a new token is for; the secret comes from the platform."""

    tenant = forms.ModelChoiceField(
        Tenant.objects.order_by("name"), empty_label="Choose…", help_text="On whose behalf."
    )
    scopes = forms.MultipleChoiceField(
        choices=Scope.choices,
        widget=forms.CheckboxSelectMultiple,
        label="May",
        help_text="What it may do; at least one.",
    )
    expires_at = datetime_field("From then on it is refused; empty: never.", label="Expires")

    class Meta:
        model = ApiToken
        fields = ("tenant", "name", "scopes", "expires_at")

    def clean_expires_at(self) -> datetime | None:
        """Refuse a token that would never be taken."""
        moment: datetime | None = self.cleaned_data["expires_at"]
        if moment is not None and moment <= clock.now():
            msg = "Must lie in the future."
            raise forms.ValidationError(msg)
        return moment


class TokenRows(ActionAdmin):
    """How tokens look in their list and on the pages of an action; no secret is known here."""

    list_display = ("state", "name", "tenant", "may_do", "begins_with", "expires", "used", "since")
    list_display_links = ("name",)
    list_filter = (TenantFilter,)
    search_fields = ("name", "hint")
    search_help_text = "name, or how the token begins"
    empty_text = "There are no API tokens yet. Programs call the API with one: add one for each."

    @admin.display(description="State")
    def state(self, row: ApiToken) -> SafeString:
        """Return whether it is taken."""
        return _badge(row)

    @admin.display(description="May")
    def may_do(self, row: ApiToken) -> str:
        """Return its scopes."""
        return ", ".join(row.scopes)

    @admin.display(description="Begins with")
    def begins_with(self, row: ApiToken) -> str:
        """Return how to recognise it."""
        return f"{row.hint}…"

    @admin.display(description="Expires")
    def expires(self, row: ApiToken) -> SafeString:
        """Return when it is refused by itself."""
        return _expiry(row)

    @admin.display(description="Last used")
    def used(self, row: ApiToken) -> SafeString:
        """Return when it was last used."""
        return ago_html(row.last_used_at) if row.last_used_at else SafeString("never")

    @admin.display(description="Since")
    def since(self, row: ApiToken) -> SafeString:
        """Return the token's age."""
        return age_html(row.created_at)

    @override
    def line(self, row: ApiToken) -> RelatedRow:
        return RelatedRow(
            badge=_badge(row),
            name=row.name,
            url=reverse("admin:tenancy_apitoken_change", args=[row.pk]),
            text=f"{row.hint}…, tenant {row.tenant}, may: {', '.join(row.scopes)}",
            since=age_html(row.created_at),
        )

    @override
    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).select_related("tenant")


@admin.register(ApiToken)
class ApiTokenAdmin(TokenRows):
    """Secrets that programs call the API with."""

    form = TokenForm
    row_actions = (TAKE_BACK,)

    @override
    def detail(self, row: ApiToken) -> Detail:
        maker = LogEntry.objects.filter(
            content_type=ContentType.objects.get_for_model(row),
            object_id=row.pk,
            action_flag=ADDITION,
        ).values_list("user__username", flat=True)
        facts = [
            *_facts(row),
            Fact.time("Made", row.created_at),
            Fact("Made by", maker.first() or ""),
            Fact("Expires", _expiry(row)),
            Fact("Last used", self.used(row)),
            Fact.time("Taken back", row.revoked_at),
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
        return {"view": "See", "add": "Make", "change": TAKE_BACK.label}

    @override
    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Make one by a form of Django: an answer that cannot be repeated has the secret."""
        return ModelAdmin.add_view(self, request, form_url, extra_context)

    @override
    def save_model(
        self, request: HttpRequest, obj: ApiToken, form: ModelForm, change: bool
    ) -> None:
        made, secret = token_create(
            tenant=obj.tenant, name=obj.name, scopes=obj.scopes, expires_at=obj.expires_at
        )
        obj.pk, obj.hint = made.pk, made.hint
        obj._secret = secret  # type: ignore[attr-defined]  # noqa: SLF001 - for `response_add` only

    @override
    def response_add(
        self, request: HttpRequest, obj: ApiToken, post_url_continue: str | None = None
    ) -> HttpResponse:
        secret: str = obj._secret  # type: ignore[attr-defined]  # noqa: SLF001 - as above
        where = request.build_absolute_uri(reverse(_TRIED_AT[min(obj.scopes)]))
        copies = [
            Copy("Token", secret),
            Copy("Try it", f"curl -H 'Authorization: Bearer {secret}' {where}"),
        ]
        facts = [*_facts(obj), Fact("Expires", _expiry(obj))]
        context = {
            **self.admin_site.each_context(request),
            "title": f"{obj.name} is made",
            "opts": self.opts,
            "detail": {"copies": copies, "facts": facts},
            "page_url": self.line(obj).url if self.has_view_permission(request) else "",
        }
        answer = TemplateResponse(request, "admin/token_made.html", context)
        answer.headers["Cache-Control"] = "no-store"
        return answer


def _badge(row: ApiToken) -> SafeString:
    if row.revoked_at:
        return shape_badge(Shape.OFF, "Taken back")
    if _has_expired(row):
        return shape_badge(Shape.OFF, "Expired")
    return shape_badge(Shape.READY, "Valid")


def _has_expired(row: ApiToken) -> bool:
    return row.expires_at is not None and row.expires_at <= clock.now()


def _panel(row: ApiToken) -> Panel | None:
    """Return that a token is refused; None for a valid one."""
    if not row.revoked_at and not _has_expired(row):
        return None
    return Panel(
        shape=Shape.OFF,
        title="Taken back" if row.revoked_at else "Expired",
        text="Whatever calls the API with it is refused.",
        since=age_html(row.revoked_at or row.expires_at),
        next_step="A program that goes on needs a new token.",
    )


def _facts(row: ApiToken) -> list[Fact]:
    """Return what a token is for and what it may do, in the words of the form."""
    page = reverse("admin:tenancy_tenant_change", args=[row.tenant_id])
    return [
        Fact("Tenant", row.tenant.name, page),
        Fact("May", "; ".join(str(Scope(scope).label) for scope in sorted(row.scopes))),
        Fact("Begins with", f"{row.hint}…"),
    ]


def _expiry(row: ApiToken) -> SafeString:
    return ago_html(row.expires_at) if row.expires_at else SafeString("never")
