"""Pages with a part that the cluster is asked for: after the page, bounded in time."""

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path
from typing_extensions import override

from gpuplatform.adminkit.actions.action import ActionAdmin
from gpuplatform.adminkit.detail.cluster import ClusterSection, cluster_section
from gpuplatform.reconciliation.inspection import Subject, inspect

CLUSTER_URL = "../cluster/"
"""From an object's page."""


class ClusterSectionAdmin(ActionAdmin):
    """Rows whose page shows what the cluster says of an object now.

    A subclass says by `subject` what the cluster is asked.
    """

    def subject(self, request: HttpRequest, row: Any) -> Subject | None:
        """Return what the cluster is asked about `row`; None where it has nothing to show."""
        raise NotImplementedError

    @override
    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.cluster_view)
        name = self._url_name("cluster")
        return [path("<int:number>/cluster/", view, name=name), *super().get_urls()]

    @override
    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return {**super().page_context(request, row), "cluster_url": CLUSTER_URL}

    def cluster_view(self, request: HttpRequest, number: int) -> HttpResponse:
        """Show what the cluster says of a row: as a part of its page, or as a page of its own."""
        if request.method not in {"GET", "HEAD"} or not self.has_view_permission(request):
            raise PermissionDenied
        row = self.get_object(request, str(number))
        if row is None:
            raise Http404
        subject = self.subject(request, row)
        context = {
            "cluster": _part(subject) if subject else None,
            "cluster_url": CLUSTER_URL,
            "opts": self.opts,
            "row": row,
        }
        if request.headers.get("HX-Request"):
            return TemplateResponse(request, "admin/cluster.html", context)
        context |= {**self.admin_site.each_context(request), "title": f"{row} in the cluster"}
        return TemplateResponse(request, "admin/cluster_page.html", context)


def _part(subject: Subject) -> ClusterSection:
    about = f"{subject.kind.kind} {subject.namespace}/{subject.name}"
    return cluster_section(inspect(subject), about)
