"""The base of every page about rows that people do not edit."""

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ERROR_FLAG
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from typing_extensions import override

from gpuplatform.adminkit.detail.panels import Detail, RelatedRow
from gpuplatform.adminkit.lists.choosing import PlatformModelAdmin
from gpuplatform.adminkit.lists.paginator import CappedPaginator
from gpuplatform.adminkit.lists.usage import Usage

NUL = "\x00"
UNKNOWN_FILTER = "There is no such filter here. All rows are shown."


class ReadOnlyAdmin(PlatformModelAdmin):
    """Lists rows and shows one; adds, changes and deletes nothing.

    A subclass returns what its detail page shows from `detail`, and what else that page is drawn
    with from `page_context`. Whatever acts on a row goes through the services of the row's app.
    """

    actions: Any = None
    search_order: ClassVar[int | None] = None
    """The place of its rows, as `line`s, in what the search over everything finds; None: none."""
    empty_text: ClassVar[str] = ""
    """What an empty list says: what its rows are, and how the first one comes to be."""
    row_nouns: ClassVar[str] = ""
    """What one row and several are called below the list; empty: as the model is."""
    list_per_page = 50
    show_full_result_count = False
    paginator = CappedPaginator
    sortable_by: ClassVar[tuple[str, ...]] = ()

    def offered_permissions(self) -> Mapping[str, str]:
        """Return the verbs of the permissions that the pages ask for, and what each allows."""
        return {"view": "See"}

    def detail(self, row: Any) -> Detail:
        """Return what the page of `row` shows."""
        raise NotImplementedError

    def line(self, row: Any) -> RelatedRow:
        """Return a row as a line of a table."""
        raise NotImplementedError

    def usage(self, tenants: Collection[int]) -> Mapping[int, Usage]:  # noqa: ARG002 - see there
        """Return what each of the tenants, by its number, uses by these rows; most count none."""
        return {}

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return what the page of `row` is drawn with."""
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
        """Make no row; a page on which some can be made has a view of its own."""
        noun = str(self.opts.verbose_name_plural)
        msg = f"{noun[:1].upper()}{noun[1:]} are not made here."
        raise PermissionDenied(msg)

    @override
    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if any(NUL in value for values in request.GET.lists() for value in values[1]):
            return HttpResponseRedirect(request.path)  # PostgreSQL cannot be asked for it
        if ERROR_FLAG in request.GET:  # Django leads here from a filter that it does not know.
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
