"""Base classes of the admin pages: pages with forms, read-only lists, and pages of objects."""

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.actions import delete_selected
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ERROR_FLAG, ChangeList
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.constants import LOOKUP_SEP
from django.forms.widgets import MediaDefiningClass
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.text import capfirst
from typing_extensions import override

from gpuplatform.adminkit.detail.panels import Detail, Fact, RelatedRow
from gpuplatform.adminkit.display.counts import COUNT_CAP
from gpuplatform.adminkit.display.timeline import Step
from gpuplatform.adminkit.lists.form_values import Changed, FormMessage, changed_values
from gpuplatform.adminkit.lists.journal import form_observed
from gpuplatform.reconciliation.inspection import Subject

# Django's classes are generic for the type checker only.
if TYPE_CHECKING:
    ModelAdmin: TypeAlias = admin.ModelAdmin[Any]
    ModelForm: TypeAlias = forms.ModelForm[Any]
    RowPaginator: TypeAlias = Paginator[Any]
else:
    ModelAdmin, ModelForm, RowPaginator = admin.ModelAdmin, forms.ModelForm, Paginator

NUL: Final = "\x00"
REQUIRED: Final = "Required."
UNKNOWN_FILTER: Final = "Unknown filter. All rows are shown."
ONE_BUTTON: Final = {"show_save_and_add_another": False, "show_save_and_continue": False}


@dataclass(frozen=True, slots=True)
class Deletion:
    """The content of the page that confirms the deletion of rows."""

    consequence: str
    """The effects of the deletion, and the alternative to it."""
    lines: Sequence[tuple[str, str]]
    """The name and description of each row."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The number of GPU units of a tenant, and of the GPUs that they hold."""

    units: int = 0
    failed: int = 0
    gpus: Mapping[str, int] = dataclass_field(default_factory=dict)
    """The number of GPUs by resource."""


def set_required_message(fields: Mapping[str, forms.Field]) -> None:
    """Replace Django's message for an empty required field."""
    for field in fields.values():
        field.error_messages["required"] = REQUIRED


def column(
    title: str,
    value: Callable[[Any], object],
    *,
    ordering: str | None = None,
    empty: str | None = None,
) -> Callable[[Any, Any], object]:
    """Return a column for `list_display` whose cell in each row is `value(row)`.

    Args:
        title: The heading of the column.
        value: Returns the content of a cell; it is escaped unless it is safe HTML.
        ordering: The database column by which the list is sorted.
        empty: The text of an empty cell, instead of a dash.
    """

    @admin.display(description=title, ordering=ordering, empty_value=empty)
    def cell(_page: Any, row: Any) -> object:
        return value(row)

    return cell


class CappedPaginator(RowPaginator):
    """A paginator that stops counting at `COUNT_CAP`."""

    object_list: QuerySet[Any]

    @cached_property
    def _counted(self) -> int:
        # A count of other columns would compute their annotations for each row.
        return self.object_list.order_by().values("pk")[: COUNT_CAP + 1].count()

    @cached_property
    @override
    def count(self) -> int:
        return min(self._counted, COUNT_CAP)

    @property
    def is_capped(self) -> bool:
        """Whether the list has more rows than were counted."""
        return self._counted > COUNT_CAP


class RowList(ChangeList):
    """A change list whose page annotates the rows."""

    @override
    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        page: Any = self.model_admin
        page.annotate_rows(request, self.result_list)


class PlatformModelAdmin(ModelAdmin):
    """A list, a form with one save button, and deletions whose confirmation states the effects."""

    is_live_with_actions = False
    """Whether an open list is refreshed although its rows can be selected for actions."""
    export_view: ClassVar[str] = ""
    """The name of the view that exports the list with its filters, if there is one."""
    empty_text: ClassVar[str] = ""
    """The text of an empty list: what the rows are and how to create the first one."""

    def url_name(self, view: str) -> str:
        """Return the name of a view's URL, without the namespace `admin`."""
        return f"{self.opts.app_label}_{self.opts.model_name}_{view}"

    def annotate_rows(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        """Set additional attributes on the rows of one page of the list."""

    @override
    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return RowList

    @override
    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Return whether a query of the list may contain `lookup`: only of its filters.

        Django also allows conditions on all columns of the model, such as `payload__startswith`.
        With them, a user could read a column that the pages hide, character by character.
        """
        column_name = lookup.partition(LOOKUP_SEP)[0]
        names = {one.name for one in self.opts.get_fields()}
        names |= {getattr(one, "attname", one.name) for one in self.opts.get_fields()}
        if column_name in names and not self._is_of_filter(lookup, request):
            return False
        return bool(super().lookup_allowed(lookup, value, request))

    def _is_of_filter(self, lookup: str, request: HttpRequest) -> bool:
        for one in self.get_list_filter(request):
            parameter = getattr(one, "parameter_name", None)
            if lookup == parameter or (
                isinstance(one, str) and lookup.startswith(f"{one}{LOOKUP_SEP}")
            ):
                return True
        return False

    def deletion(self, rows: Sequence[Any]) -> Deletion:
        """Return the content of the page that confirms the deletion of `rows`."""
        return Deletion("This cannot be undone.", [(str(row), "") for row in rows])

    def deletion_context(self, rows: Sequence[Any]) -> dict[str, Any]:
        """Return the template context of the page that confirms the deletion of `rows`."""
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
    def construct_change_message(
        self, request: HttpRequest, form: Any, formsets: Any, add: bool = False
    ) -> Any:
        message = super().construct_change_message(request, form, formsets, add)
        if not isinstance(form, forms.ModelForm):
            return message
        return FormMessage(message, changed_values(form, is_new=add))

    @override
    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        form_observed(obj, "create", message, _changed(message))
        return super().log_addition(request, obj, message)

    @override
    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        form_observed(obj, "update", message, _changed(message))
        return super().log_change(request, obj, message)

    @override
    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        for row in queryset:
            form_observed(row, "delete", "")
        return super().log_deletions(request, queryset)

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


def _changed(message: Any) -> Changed | None:
    return message.changed if isinstance(message, FormMessage) else None


@admin.action(permissions=["delete"], description="Delete")
def delete_selected_rows(
    page: ModelAdmin, request: HttpRequest, rows: QuerySet[Any]
) -> HttpResponse | None:
    """Delete the selected rows after a confirmation page that states the effects."""
    with transaction.atomic():  # With the entries of the audit log.
        response = delete_selected(page, request, rows)
    if isinstance(response, TemplateResponse) and isinstance(page, PlatformModelAdmin):
        deletion = page.deletion_context(list(rows))
        response.context_data = {**(response.context_data or {}), "deletion": deletion}
    return response


class AbstractPageType(ABCMeta, MediaDefiningClass):
    """The metaclass of pages with abstract methods."""


class ReadOnlyAdmin(PlatformModelAdmin, metaclass=AbstractPageType):
    """A list whose rows cannot be added, changed or deleted through Django's forms."""

    actions: Any = None
    row_nouns: ClassVar[str] = ""
    """The singular and plural noun of a row, separated by a comma; by default the model's."""
    list_per_page = 50
    show_full_result_count = False
    paginator = CappedPaginator
    sortable_by: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Return the response with the page of a row."""

    def tenant_facts(self, tenant: Any) -> Sequence[Fact]:  # noqa: ARG002 - for overrides
        """Return facts about a tenant for the page of the tenant."""
        return ()

    def offered_permissions(self) -> Mapping[str, str]:
        """Return a label for the verb of each permission that the pages check."""
        return {"view": "View"}

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
        """Reject the request; pages that create rows override this method."""
        msg = f"{capfirst(self.opts.verbose_name_plural)} cannot be created here."
        raise PermissionDenied(msg)

    @override
    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if any(NUL in value for values in request.GET.lists() for value in values[1]):
            return HttpResponseRedirect(request.path)  # PostgreSQL rejects it in a query.
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


class ObjectAdmin(ReadOnlyAdmin):
    """A read-only list with a page for each row.

    A subclass returns the content of a row's page from `detail` and adds to the template context
    in `page_context`.
    """

    search_order: ClassVar[int | None] = None
    """The position of the list in the results of the global search; `None` excludes it."""
    line_fields: ClassVar[tuple[str, ...]] = ()
    """All fields that `line` reads. The global search then needs no query for the rows."""
    object_kind: ClassVar[str] = ""
    """The `object_kind` of the operations on these rows."""

    @abstractmethod
    def detail(self, row: Any) -> Detail:
        """Return the content of the page of a row."""

    @abstractmethod
    def line(self, row: Any) -> RelatedRow:
        """Return a row as a line of a table on another page."""

    def lines(self, rows: Sequence[Any]) -> Sequence[RelatedRow]:
        """Return rows as lines. A subclass can read what their lines need with one query."""
        return [self.line(row) for row in rows]

    def rows_of_object(self, row_id: int) -> Sequence[RelatedRow]:
        """Return the lines that represent an operation's object on the operation's page."""
        return [self.line(row) for row in self.model._default_manager.filter(pk=row_id)]  # noqa: SLF001 - public API

    def steps_of_object(self, row_id: int) -> Sequence[Step]:  # noqa: ARG002 - for overrides
        """Return the timeline of an object for the page of the operation that created it."""
        return ()

    def subject_of_object(self, request: HttpRequest, row_id: int) -> Subject | None:  # noqa: ARG002 - as above
        """Return the resource whose live data an operation's page shows.

        Returns `None` if the resource does not exist or the user may not view it.
        """
        return None

    def usage(self, tenants: Collection[int]) -> Mapping[int, Usage]:  # noqa: ARG002 - as above
        """Return the usage of each tenant by its id. By default, rows use no GPUs."""
        return {}

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return the template context of the page of a row."""
        detail = self.detail(row)
        shared = self.admin_site.each_context(request)
        return {**shared, "title": detail.title, "opts": self.opts, "detail": detail}

    @override
    def page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        row = self.get_object(request, unquote(object_id))
        if row is None:
            raise Http404
        return TemplateResponse(request, "admin/detail.html", self.page_context(request, row))
