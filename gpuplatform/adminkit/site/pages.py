"""The admin site: Django's site with the navigation, notices, search and overview."""

from collections.abc import Callable
from functools import wraps
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.contrib.admin import AdminSite
from django.contrib.admin.options import BaseModelAdmin
from django.contrib.auth.views import PasswordChangeView
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path, reverse
from typing_extensions import override

from gpuplatform.adminkit.actions.model_admin import ActionAdmin
from gpuplatform.adminkit.display.badges import Shape
from gpuplatform.adminkit.display.text import NONE
from gpuplatform.adminkit.lists.model_admin import ModelAdmin, delete_selected_rows
from gpuplatform.adminkit.lists.search import search_everything, search_query
from gpuplatform.adminkit.overview.health import health_summary, platform_health
from gpuplatform.adminkit.overview.sections import overview_context
from gpuplatform.adminkit.site.login import LogInForm, OwnPasswordForm
from gpuplatform.adminkit.site.navigation import failed_rows, navigation, place_of
from gpuplatform.clock import now
from gpuplatform.samples.selectors import latest_sample

DEVELOPMENT_NOTICE = "Development mode: the API requires no token and accepts only local requests."


class PlatformAdminSite(AdminSite):
    """The admin site of the platform; it is Django's default site."""

    site_header = "GPU platform"
    site_title = "GPU platform"
    index_title = "Overview"
    site_url = None
    empty_value_display = NONE
    enable_nav_sidebar = False  # `navigation` replaces it.
    login_form = LogInForm

    def __init__(self, name: str = "admin") -> None:
        super().__init__(name)
        self.disable_action("delete_selected")
        self.add_action(delete_selected_rows, "delete_selected")

    @override
    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        context = super().each_context(request)
        context["environment_label"] = settings.GPUPLATFORM_ENVIRONMENT
        context["development_notice"] = DEVELOPMENT_NOTICE if settings.GPUPLATFORM_DEV else ""
        failed = failed_rows(request, self._registry.values())
        context["navigation"] = navigation(context["available_apps"], request.path, failed)
        return context

    @override
    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        page: Any = getattr(view, "__self__", None)
        is_list = isinstance(page, BaseModelAdmin) and view.__name__ == "changelist_view"
        return super().admin_view(_checking_action(page, view) if is_list else view, cacheable)

    @override
    def get_urls(self) -> list[Any]:
        return [
            path("search/", self.admin_view(self.search), name="search"),
            path("health/", self.admin_view(self.health), name="health"),
            *super().get_urls(),
        ]

    @override
    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        shown = {"has_oidc": settings.OIDC is not None, **(extra_context or {})}
        response = super().login(request, shown)
        form = (getattr(response, "context_data", None) or {}).get("form")
        if isinstance(form, LogInForm) and form.retry_after:
            response.status_code = HTTPStatus.TOO_MANY_REQUESTS
            response.headers["Retry-After"] = str(form.retry_after)
        return response

    def search(self, request: HttpRequest) -> TemplateResponse:
        """Return the results of the global search."""
        text = search_query(request)
        found = list(search_everything(request, self._registry.values(), text))
        context = {**self.each_context(request), "title": "Search", "text": text, "found": found}
        return TemplateResponse(request, "admin/search.html", context)

    def health(self, request: HttpRequest) -> TemplateResponse:
        """Return the badge of the header, and a banner if the cluster is unavailable."""
        health = platform_health(latest_sample(), now())
        cluster = next(part for part in health if part.name == "cluster")
        context = {
            "badge": health_summary(health),
            "cluster": cluster if cluster.shape is Shape.FAILED else None,
        }
        return TemplateResponse(request, "admin/health.html", context)

    @override
    def password_change(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> Any:
        view = PasswordChangeView.as_view(
            form_class=OwnPasswordForm,
            success_url=reverse("admin:password_change_done"),
            extra_context={**self.each_context(request), **(extra_context or {})},
        )
        return view(request)

    @override
    def index(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> TemplateResponse:
        pages = sorted(self._registry.values(), key=lambda page: place_of(page.opts.label_lower))
        sections = [
            page.overview_section()
            for page in pages
            if isinstance(page, ActionAdmin) and page.has_view_permission(request)
        ]
        context = overview_context(request, sections)
        return super().index(request, {**context, **(extra_context or {})})


def _checking_action(
    page: ModelAdmin, view: Callable[..., HttpResponse]
) -> Callable[..., HttpResponse]:
    """Return the view, which responds with 403 to forbidden actions.

    Without it, Django would ignore the action and display the list.
    """

    @wraps(view)
    def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        name = request.POST.get("action", "")
        if name and name not in page.get_actions(request):
            raise PermissionDenied
        return view(request, *args, **kwargs)

    return checked
