"""Tenants and API tokens in the admin."""

from collections.abc import Iterator, Mapping
from urllib.parse import urlencode

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.safestring import SafeString
from typing_extensions import override

from gpuplatform import clock
from gpuplatform.adminkit.age import age_html
from gpuplatform.adminkit.badges import Shape, shape_badge
from gpuplatform.adminkit.detail import Detail, Fact, RelatedRow
from gpuplatform.adminkit.fields import moment_field
from gpuplatform.adminkit.filters import TenantFilter
from gpuplatform.adminkit.generics import ModelAdmin, ModelForm
from gpuplatform.adminkit.readonly import ReadOnlyAdmin
from gpuplatform.tenancy import admin_people
from gpuplatform.tenancy.models import ApiToken, Scope, Tenant
from gpuplatform.tenancy.services import token_create, token_revoke

__all__ = ["admin_people"]


@admin.register(Tenant)
class TenantAdmin(ReadOnlyAdmin):
    """Who owns what."""

    found_at = 6
    list_display = ("name", "namespace", "since")
    search_fields = ("name", "namespace")
    search_help_text = "name or namespace"

    @admin.display(description="Since")
    def since(self, row: Tenant) -> SafeString:
        """Return the tenant's age."""
        return age_html(row.created_at)

    @override
    def line(self, row: Tenant) -> RelatedRow:
        return RelatedRow(
            badge=shape_badge(Shape.READY, "Active"),
            name=row.name,
            url=reverse("admin:tenancy_tenant_change", args=[row.pk]),
            text=f"namespace {row.namespace}",
            since=age_html(row.created_at),
        )

    @override
    def detail(self, row: Tenant) -> Detail:
        return Detail(
            title=row.name,
            badge=shape_badge(Shape.READY, "Active"),
            since=age_html(row.created_at),
            facts=[
                Fact("Namespace", row.namespace),
                Fact.time("Made", row.created_at),
                *self._lists(row),
            ],
        )

    def _lists(self, row: Tenant) -> Iterator[Fact]:
        """Yield a link to each list that can be narrowed down to a tenant."""
        for page in self.admin_site._registry.values():  # noqa: SLF001 - there is no other way
            if TenantFilter in page.list_filter:
                listed = f"admin:{page.opts.app_label}_{page.opts.model_name}_changelist"
                name = str(page.opts.verbose_name_plural)
                query = urlencode({str(TenantFilter.parameter_name): row.name})
                yield Fact(name[:1].upper() + name[1:], "show", f"{reverse(listed)}?{query}")


class TokenForm(ModelForm):
    """Asks what a new token is for; the secret comes from the platform."""

    scopes = forms.MultipleChoiceField(
        choices=Scope.choices,
        widget=forms.CheckboxSelectMultiple,
        help_text="What it may do; at least one.",
    )
    tenant = forms.ModelChoiceField(
        Tenant.objects.order_by("name"), empty_label="Choose…", help_text="On whose behalf."
    )
    expires_at = moment_field("From then on it is refused; empty: never.")

    class Meta:
        model = ApiToken
        fields = ("tenant", "name", "scopes", "expires_at")


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    """Secrets that programs call the API with: made, shown once, taken back."""

    form = TokenForm
    is_live_with_actions = True
    list_display = ("state", "name", "tenant", "may", "begins_with", "used", "since")
    list_display_links = ("name",)
    list_filter = (TenantFilter,)
    list_select_related = ("tenant",)
    search_fields = ("name", "hint")
    search_help_text = "name, or how the token begins"
    actions = ("revoke",)
    when_empty = "There are no API tokens yet. Programs call the API with one: add one for each."

    @admin.display(description="State")
    def state(self, row: ApiToken) -> SafeString:
        """Return whether it is taken."""
        return _token_badge(row)

    @admin.display(description="May")
    def may(self, row: ApiToken) -> str:
        """Return its scopes."""
        return ", ".join(row.scopes)

    @admin.display(description="Begins with")
    def begins_with(self, row: ApiToken) -> str:
        """Return how to recognise it."""
        return f"{row.hint}…"

    @admin.display(description="Last used")
    def used(self, row: ApiToken) -> SafeString:
        """Return when it was last used."""
        return age_html(row.last_used_at)

    @admin.display(description="Since")
    def since(self, row: ApiToken) -> SafeString:
        """Return the token's age."""
        return age_html(row.created_at)

    @override
    def detail(self, row: ApiToken) -> Detail:
        facts = [
            Fact("Tenant", row.tenant.name),
            Fact("May", ", ".join(row.scopes)),
            Fact("Begins with", f"{row.hint}…"),
            Fact.time("Made", row.created_at),
            Fact.time("Expires", row.expires_at),
            Fact.time("Taken back", row.revoked_at),
            Fact.time("Last used", row.last_used_at),
        ]
        return Detail(
            title=row.name,
            badge=_token_badge(row),
            since=age_html(row.created_at),
            facts=[fact for fact in facts if fact.value],
        )

    @override
    def has_add_permission(self, request: HttpRequest) -> bool:
        return ModelAdmin.has_add_permission(self, request)

    @override
    def rights_asked(self) -> Mapping[str, str]:
        return {"view": "See", "add": "Make", "change": "Take back"}

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        """Say whether somebody may take tokens back: who may change them."""
        return ModelAdmin.has_change_permission(self, request)

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
        context = {
            **self.admin_site.each_context(request),
            "title": obj.name,
            "opts": self.opts,
            "secret": obj._secret,  # type: ignore[attr-defined]  # noqa: SLF001 - as above
        }
        answer = TemplateResponse(request, "admin/token_made.html", context)
        answer.headers["Cache-Control"] = "no-store"
        return answer

    @admin.action(description="Take back", permissions=["revoke"])
    def revoke(self, request: HttpRequest, rows: QuerySet[ApiToken]) -> None:
        """Refuse them from now on, for good."""
        taken = [row for row in rows if token_revoke(row)]
        for row in taken:
            self.log_change(request, row, "Taken back.")
        self.message_user(request, f"Tokens taken back: {len(taken)}.", messages.SUCCESS)


def _token_badge(row: ApiToken) -> SafeString:
    if row.revoked_at:
        return shape_badge(Shape.OFF, "Taken back")
    if row.expires_at and row.expires_at <= clock.now():
        return shape_badge(Shape.OFF, "Expired")
    return shape_badge(Shape.READY, "Valid")
