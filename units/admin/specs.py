"""The catalogue in the admin: entries are changed through the services, as by the API."""

import uuid
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from typing_extensions import override

from gpuplatform.adminkit.age import age_html
from gpuplatform.adminkit.badges import Shape, shape_badge
from gpuplatform.adminkit.detail import RelatedRow
from gpuplatform.adminkit.filters import YesNoFilter
from gpuplatform.adminkit.generics import ModelForm
from gpuplatform.adminkit.links import ObjectPage, register_object_page
from gpuplatform.adminkit.text import visible
from gpuplatform.errors import InvalidSpec, PlatformError
from gpuplatform.tenancy.selectors import tenant_by_name
from inventory.core.catalogue import COLUMNS, GpuSpecCreate, GpuSpecPatch
from inventory.models import GpuSpec
from inventory.services import gpu_spec_create, gpu_spec_delete, gpu_spec_update
from units.admin.detail import SPEC_URL
from units.admin.spec_columns import SpecColumns, put_counts

SPEC_KIND = "GPUSpec"
_API_NAMES = {column: name for name, column in COLUMNS.items()}


class SpecForm(ModelForm):
    """Checks what was entered by the API's own declaration."""

    class Meta:
        model = GpuSpec
        fields = ("name", *COLUMNS.values())
        labels: ClassVar[dict[str, str]] = {
            "cpu": "CPU",
            "gpu": "GPUs",
            "product": "GPU product",
            "is_top_up_paused": "Top-up is paused",
            "restocks_on_delete": "Restock on delete",
            "may_preempt": "May preempt",
            "is_enabled": "Enabled",
        }
        widgets: ClassVar[dict[str, forms.Widget]] = {
            "placement": forms.Textarea(attrs={"rows": 6, "cols": 60}),
        }

    asked: GpuSpecCreate | GpuSpecPatch | None = None
    """What the services are asked for; None when nothing changed."""

    @override
    def clean(self) -> dict[str, Any]:
        entered = super().clean() or {}
        if not self.errors:
            self.asked = self._parsed(entered)
        return entered

    def _parsed(self, entered: dict[str, Any]) -> GpuSpecCreate | GpuSpecPatch | None:
        values = {name: _json(entered[name]) for name in _API_NAMES}
        changed = [name for name, value in values.items() if value != self.initial.get(name)]
        body = {_API_NAMES[name]: values[name] for name in changed}
        body["operationID"] = f"admin-{uuid.uuid4().hex}"
        try:
            if self.instance.pk is None:
                return GpuSpecCreate.parse({**body, "name": entered["name"]})
            return GpuSpecPatch.parse(body) if changed else None
        except InvalidSpec as error:
            for fault in error.details:
                field, _, rest = fault.field.partition(".")
                column = COLUMNS.get(field.partition("[")[0], field)
                where = f"{rest}: " if rest else ""
                self.add_error(column if column in self.fields else None, where + fault.message)
            return None


def _json(value: Any) -> Any:
    """Return a form's value as JSON would have it: an empty placement is an empty object."""
    return {} if value is None else value


class EnabledFilter(YesNoFilter):
    """Whether anything is claimed or seeded."""

    title = "state"
    parameter_name = "enabled"
    field = "is_enabled"
    words = ("Enabled", "Disabled")


class PausedFilter(YesNoFilter):
    """Whether the warm target is left alone."""

    title = "top-up"
    parameter_name = "paused"
    field = "is_top_up_paused"
    words = ("Paused", "Not paused")


@admin.register(GpuSpec)
class GpuSpecAdmin(SpecColumns):
    """What a GPU spec gives, how much stock is kept of it, and how its units stand."""

    form = SpecForm
    list_display = (
        "state",
        "name",
        "gpus",
        "product",
        "target",
        "top_up",
        "stock",
        "in_use",
        "changed",
    )
    list_display_links = ("name",)
    list_filter = (EnabledFilter, PausedFilter)
    search_fields = ("name", "description", "product")
    search_help_text = "name, text or product"
    ordering = ("name",)
    sortable_by = ("name", "product", "changed")
    actions = ("pause", "resume")
    readonly_fields = ("standing", "obstacle")
    fieldsets = (
        (None, {"fields": ("name", "description", "is_enabled")}),
        (
            "Stock",
            {
                "fields": (
                    "standing",
                    "warm_target",
                    "is_top_up_paused",
                    "obstacle",
                    "restocks_on_delete",
                )
            },
        ),
        ("One unit", {"fields": ("gpu", "cpu", "memory", "product", "placement", "may_preempt")}),
    )

    @override
    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return (*self.readonly_fields, "name") if obj else self.readonly_fields

    @override
    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is not None:
            return super().get_fieldsets(request, obj)
        return [(None, {"fields": ("name", *COLUMNS.values())})]

    @override
    def get_actions(self, request: HttpRequest) -> Any:
        actions = super().get_actions(request)
        actions.pop("delete_selected", None)  # It would pass by the services.
        return actions

    @override
    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist = super().get_changelist_instance(request)
        put_counts(changelist.result_list)
        return changelist

    @override
    def save_model(self, request: HttpRequest, obj: GpuSpec, form: Any, change: bool) -> None:
        asked, tenant = form.asked, tenant_by_name()
        if isinstance(asked, GpuSpecPatch):
            gpu_spec_update(tenant=tenant, name=obj.name, asked=asked)
        elif isinstance(asked, GpuSpecCreate):
            obj.pk = gpu_spec_create(tenant=tenant, asked=asked).operation.object_row

    @override
    def delete_model(self, request: HttpRequest, obj: GpuSpec) -> None:
        gpu_spec_delete(
            tenant=tenant_by_name(), name=obj.name, operation_id=f"admin-{uuid.uuid4().hex}"
        )

    @override
    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        return self._answered(request, super().changeform_view, *args, **kwargs)

    @override
    def delete_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        return self._answered(request, super().delete_view, *args, **kwargs)

    @admin.action(description="Pause the top-up", permissions=["change"])
    def pause(self, request: HttpRequest, rows: QuerySet[GpuSpec]) -> None:
        """Leave their warm targets alone for now."""
        self._switch(request, rows, paused=True)

    @admin.action(description="Resume the top-up", permissions=["change"])
    def resume(self, request: HttpRequest, rows: QuerySet[GpuSpec]) -> None:
        """Keep their warm targets again."""
        self._switch(request, rows, paused=False)

    def _switch(self, request: HttpRequest, rows: QuerySet[GpuSpec], *, paused: bool) -> None:
        word = "paused" if paused else "resumed"
        for row in rows:
            body = {"operationID": f"admin-{uuid.uuid4().hex}", "topUpPaused": paused}
            asked = GpuSpecPatch.parse(body)
            try:
                gpu_spec_update(tenant=tenant_by_name(), name=row.name, asked=asked)
            except PlatformError as error:
                self.message_user(request, f"{row.name}: {error}", messages.ERROR)
            else:
                self.message_user(request, f"{row.name}: {word}.", messages.SUCCESS)

    def _answered(
        self, request: HttpRequest, view: Callable[..., HttpResponse], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Answer a refusal of the services in words, on the page that was left."""
        try:
            return view(request, *args, **kwargs)
        except PlatformError as error:
            self.message_user(request, str(error), messages.ERROR)
            return HttpResponseRedirect(request.path)


def _rows(number: int) -> Sequence[RelatedRow]:
    return [
        RelatedRow(
            badge=shape_badge(Shape.READY if row.is_enabled else Shape.OFF, "GPU spec"),
            name=visible(row.name),
            url=reverse(SPEC_URL, args=[row.pk]),
            text=visible(row.description),
            since=age_html(row.updated_at),
        )
        for row in GpuSpec.objects.filter(pk=number)
    ]


register_object_page(SPEC_KIND, ObjectPage(SPEC_URL, _rows))
