"""The documentation's own addresses (no page asks outside), and the end of the API's: a JSON 404.

Included after every app's routes.
"""

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path, re_path
from django.views.decorators.csrf import csrf_exempt
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularJSONAPIView, SpectacularSwaggerSplitView


@csrf_exempt
def nothing_here(_request: HttpRequest) -> HttpResponse:
    """Answer what no route takes here, so that Django's page for people is not even rendered."""
    raise Http404


urlpatterns = [
    path("api/v1/schema", SpectacularJSONAPIView.as_view(), name="schema"),
    path("swagger/doc.json", SpectacularJSONAPIView.as_view(), name="swagger-document"),
    path(
        "swagger/index.html",
        SpectacularSwaggerSplitView.as_view(url_name="swagger-document"),
        name="swagger",
    ),
    path("swagger/", RedirectView.as_view(pattern_name="swagger")),
    re_path("^api/", nothing_here),
]
