"""URLs of the API root and documentation, and the catch-all route below `/api/`.

They must be included after the URLs of every app.
"""

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path, re_path
from django.views.decorators.csrf import csrf_exempt
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularSwaggerSplitView

from gpuplatform.api.document import serve_document
from gpuplatform.api.request_log import UNKNOWN_ADDRESS
from gpuplatform.api.root import ApiRoot


@csrf_exempt
def unknown_address(_request: HttpRequest) -> HttpResponse:
    """Raise `Http404` for every unknown path below `/api/`, so that the response is JSON."""
    raise Http404


urlpatterns = [
    path("api/v1/", ApiRoot.as_view(), name="api-root"),
    path("api/v1/schema", serve_document, name="schema"),
    path("swagger/doc.json", serve_document, name="swagger-document"),
    path(
        "swagger/index.html",
        SpectacularSwaggerSplitView.as_view(url_name="swagger-document"),
        name="swagger",
    ),
    path("swagger/", RedirectView.as_view(pattern_name="swagger")),
    re_path("^api/", unknown_address, name=UNKNOWN_ADDRESS),
]
