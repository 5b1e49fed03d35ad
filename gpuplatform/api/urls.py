"""The documentation's own addresses: Swagger UI and the OpenAPI document. No page asks outside."""

from django.urls import path
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularJSONAPIView, SpectacularSwaggerSplitView

urlpatterns = [
    path("api/v1/schema", SpectacularJSONAPIView.as_view(), name="schema"),
    path("swagger/doc.json", SpectacularJSONAPIView.as_view(), name="swagger-document"),
    path(
        "swagger/index.html",
        SpectacularSwaggerSplitView.as_view(url_name="swagger-document"),
        name="swagger",
    ),
    path("swagger/", RedirectView.as_view(pattern_name="swagger")),
]
