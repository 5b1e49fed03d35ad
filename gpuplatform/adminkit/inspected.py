"""Pages with a part that the cluster is asked for: after the page, bounded in time."""

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path
from typing_extensions import override

from gpuplatform.adminkit.cluster import cluster_part
from gpuplatform.adminkit.mirrors import MirrorAdmin
from gpuplatform.reconciliation.inspection import Subject, inspect

CLUSTER_URL = "../cluster/"
"""From an object's page."""


class InspectedAdmin(MirrorAdmin):
    """A mirrored resource whose page shows what the cluster says of it now.

    A subclass says by `subject` what the cluster is asked.
    """

    def subject(self, row: Any) -> Subject | None:
        """Return what the cluster is asked about `row`; None where it has nothing of it."""
        raise NotImplementedError

    @override
    def get_urls(self) -> list[Any]:
        name = f"{self.opts.app_label}_{self.opts.model_name}_cluster"
        view = self.admin_site.admin_view(self.cluster_view)
        return [path("<int:number>/cluster/", view, name=name), *super().get_urls()]

    @override
    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        context = {"cluster_url": CLUSTER_URL, **(extra_context or {})}
        return super().change_view(request, object_id, form_url, context)

    def cluster_view(self, request: HttpRequest, number: int) -> HttpResponse:
        """Show what the cluster says of a row: as a part of its page, or as a page of its own."""
        if request.method not in {"GET", "HEAD"} or not self.has_view_permission(request):
            raise PermissionDenied
        row = self.get_object(request, str(number))
        if row is None:
            raise Http404
        subject = self.subject(row)
        context = {
            "cluster": cluster_part(inspect(subject)) if subject else None,
            "cluster_url": CLUSTER_URL,
            "opts": self.opts,
            "row": row,
        }
        if request.headers.get("HX-Request"):
            return TemplateResponse(request, "admin/cluster.html", context)
        context |= {**self.admin_site.each_context(request), "title": f"{row} in the cluster"}
        return TemplateResponse(request, "admin/cluster_page.html", context)
