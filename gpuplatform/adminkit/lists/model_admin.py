"""Base classes of the admin's pages: one for Django's forms, one for rows that are read-only."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.actions import delete_selected
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ERROR_FLAG, ChangeList
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from typing_extensions import override

from gpuplatform.adminkit.detail.panels import Detail, RelatedRow

# Django's classes are generic for the type checker only.
if TYPE_CHECKING:
    ModelAdmin: TypeAlias = admin.ModelAdmin[Any]
    ModelForm: TypeAlias = forms.ModelForm[Any]
    RowPaginator: TypeAlias = Paginator[Any]
else:
    ModelAdmin, ModelForm, RowPaginator = admin.ModelAdmin, forms.ModelForm, Paginator

NUL: Final = "\x00"
COUNT_CAP: Final = 5_000
"""Maximum number of rows that the pages of a list count."""
REQUIRED: Final = "Required."
UNKNOWN_FILTER: Final = "Unknown filter. All rows are shown."
ONE_BUTTON: Final = {"show_save_and_add_another": False, "show_save_and_continue": False}


@dataclass(frozen=True, slots=True)
class Deletion:
    """The confirmation before rows are deleted."""

    consequence: str
    """What stops, what is lost, and the alternative."""
    lines: Sequence[tuple[str, str]]
    """Name and description of each row."""


@dataclass(frozen=True, slots=True)
class Usage:
    """A tenant's GPU units and the GPUs that they hold."""

    units: int = 0
    failed: int = 0
    gpus: int = 0


def set_required_message(fields: Mapping[str, forms.Field]) -> None:
    """Replace the message of Django's forms for an empty field by that of the platform's forms."""
    for field in fields.values():
        field.error_messages["required"] = REQUIRED


class CappedPaginator(RowPaginator):
    """Stops counting at `COUNT_CAP`; a filter narrows the list."""

    object_list: QuerySet[Any]

    @cached_property
    def _counted(self) -> int:
        return self.object_list.order_by()[: COUNT_CAP + 1].count()

    @cached_property
    @override
    def count(self) -> int:
        return min(self._counted, COUNT_CAP)

    @property
    def is_capped(self) -> bool:
        """Whether there are more rows than were counted."""
        return self._counted > COUNT_CAP


class RowList(ChangeList):
    """A page of a list whose rows get further data, from one query for all of them."""

    @override
    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        page: Any = self.model_admin
        page.annotate_rows(request, self.result_list)


class PlatformModelAdmin(ModelAdmin):
    """A list, a form with one save button, and deletions that state their consequence."""

    is_live_with_actions = False
    """Whether the rows of a list with actions are refreshed while it is open."""
    empty_text: ClassVar[str] = ""
    """Text of an empty list: what its rows are and how the first one is created."""

    def annotate_rows(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        """Set further attributes on the rows of one page of the list."""

    @override
    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return RowList

    def deletion(self, rows: Sequence[Any]) -> Deletion:
        """Return the confirmation before `rows` are deleted."""
        return Deletion("This cannot be undone.", [(str(row), "") for row in rows])

    def deletion_context(self, rows: Sequence[Any]) -> dict[str, Any]:
        """Return the context of the page that confirms the deletion of `rows`."""
        noun = self.opts.verbose_name if len(rows) == 1 else self.opts.verbose_name_plural
        found = self.deletion(rows)
        named = found.lines[0][0] if len(rows) == 1 else f"{len(rows)} {noun}"
        return {
            "title": f"Delete: {named}",
            "consequence": found.consequence,
            "lines": found.lines,
            "heading": f"{len(rows)} {noun}",
        }

    @override
    def get_action_choices(
        self, request: HttpRequest, default_choices: Any = (("", "Select action…"),)
    ) -> list[tuple[str, str]]:
        return super().get_action_choices(request, list(default_choices))

    @override
    def get_form(self, request: HttpRequest, *args: Any, **kwargs: Any) -> type[ModelForm]:
        form = super().get_form(request, *args, **kwargs)
        set_required_message(form.base_fields)
        return form

    @override
    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        context |= ONE_BUTTON
        if context["original"] is None:
            context["title"] = f"Create {self.opts.verbose_name}"
        return super().render_change_form(request, context, *args, **kwargs)

    @override
    def render_delete_form(self, request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
        deletion = self.deletion_context([context["object"]])
        return super().render_delete_form(request, {**context, "deletion": deletion})


@admin.action(permissions=["delete"], description="Delete")
def delete_selected_rows(
    page: ModelAdmin, request: HttpRequest, rows: QuerySet[Any]
) -> HttpResponse | None:
    """Delete the selected rows after a confirmation that states the consequence."""
    answer = delete_selected(page, request, rows)
    if isinstance(answer, TemplateResponse) and isinstance(page, PlatformModelAdmin):
        deletion = page.deletion_context(list(rows))
        answer.context_data = {**(answer.context_data or {}), "deletion": deletion}
    return answer


class ReadOnlyAdmin(PlatformModelAdmin):
    """Lists rows and shows one; does not add, change or delete.

    A subclass returns the content of the page of a row from `detail`, and its further context from
    `page_context`. Actions on a row go through the services of the row's app.
    """

    actions: Any = None
    search_order: ClassVar[int | None] = None
    """Position among the results of the search over all lists; None: not searched."""
    row_nouns: ClassVar[str] = ""
    """Singular and plural of a row, with a comma between; empty: those of the model."""
    list_per_page = 50
    show_full_result_count = False
    paginator = CappedPaginator
    sortable_by: ClassVar[tuple[str, ...]] = ()

    def offered_permissions(self) -> Mapping[str, str]:
        """Return the verbs of the permissions that the pages check, each with a label."""
        return {"view": "View"}

    def detail(self, row: Any) -> Detail:
        """Return the content of the page of `row`."""
        raise NotImplementedError

    def line(self, row: Any) -> RelatedRow:
        """Return a row as a line of a table."""
        raise NotImplementedError

    def usage(self, tenants: Collection[int]) -> Mapping[int, Usage]:  # noqa: ARG002 - for overrides
        """Return the usage of each tenant, by its id, that these rows count; most count none."""
        return {}

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return the context of the page of `row`."""
        detail = self.detail(row)
        shared = self.admin_site.each_context(request)
        return {**shared, "title": detail.title, "opts": self.opts, "detail": detail}

    def page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Answer with the page of a row."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        row = self.get_object(request, unquote(object_id))
        if row is None:
            raise Http404
        return TemplateResponse(request, "admin/detail.html", self.page_context(request, row))

    @override
    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    @override
    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @override
    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @override
    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Refuse; a page that creates rows overrides this."""
        noun = str(self.opts.verbose_name_plural)
        msg = f"{noun[:1].upper()}{noun[1:]} cannot be created here."
        raise PermissionDenied(msg)

    @override
    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if any(NUL in value for values in request.GET.lists() for value in values[1]):
            return HttpResponseRedirect(request.path)  # PostgreSQL does not accept it in a query.
        if ERROR_FLAG in request.GET:  # Django redirects here from an unknown filter.
            self.message_user(request, UNKNOWN_FILTER, messages.WARNING)
            return HttpResponseRedirect(request.path)
        return super().changelist_view(request, extra_context)

    @override
    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        if request.method not in {"GET", "HEAD"}:
            raise PermissionDenied
        return self.page(request, object_id)
