"""Pages with a section of live data, which the browser loads after the page."""

from abc import abstractmethod
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path
from typing_extensions import override

from gpuplatform.adminkit.actions.model_admin import ActionAdmin
from gpuplatform.adminkit.detail.cluster import ClusterSection, cluster_section
from gpuplatform.adminkit.lists.journal import log_observed
from gpuplatform.reconciliation.inspection import Subject, inspect

CLUSTER_URL = "../cluster/"
"""The URL of the section, relative to an object's page."""


class ClusterSectionAdmin(ActionAdmin):
    """Rows whose pages show live data of a resource in the cluster."""

    @abstractmethod
    def subject(self, request: HttpRequest, row: Any) -> Subject | None:
        """Return the resource of a row, or `None` if the cluster does not have it."""

    @override
    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.cluster_view)
        name = self.url_name("cluster")
        return [path("<int:row_id>/cluster/", view, name=name), *super().get_urls()]

    @override
    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return {**super().page_context(request, row), "cluster_url": CLUSTER_URL}

    def cluster_view(self, request: HttpRequest, row_id: int) -> HttpResponse:
        """Return the live data: a fragment for htmx, otherwise a complete page."""
        if request.method not in {"GET", "HEAD"} or not self.has_view_permission(request):
            raise PermissionDenied
        row = self.get_object(request, str(row_id))
        if row is None:
            raise Http404
        subject = self.subject(request, row)
        section = _section(subject) if subject else None
        if section is not None and section.log:
            log_observed(row)
        context = {
            "cluster": section,
            "cluster_url": CLUSTER_URL,
            "opts": self.opts,
            "row": row,
        }
        if request.headers.get("HX-Request"):
            return TemplateResponse(request, "admin/cluster.html", context)
        context |= {**self.admin_site.each_context(request), "title": f"Live data: {row}"}
        return TemplateResponse(request, "admin/cluster_page.html", context)


def _section(subject: Subject) -> ClusterSection:
    about = f"{subject.kind.kind} {subject.namespace}/{subject.name}"
    return cluster_section(inspect(subject), about)
