"""URLs of the web process."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from gpuplatform.adminkit.site.errors import forbidden, not_found
from gpuplatform.observability.health_api import Health, livez, readyz
from gpuplatform.tenancy.oidc_views import oidc_callback, oidc_start

handler403, handler404 = forbidden, not_found

admin.autodiscover()

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("livez", livez),
    path("readyz", readyz),
    path("api/v1/health", Health.as_view(), name="health"),
    path("api/v1/", include("gpuplatform.audit.api.urls")),
    path("api/v1/", include("gpuplatform.operations.api.urls")),
    path("api/v1/", include("gpuplatform.usage.api.urls")),
    path("api/v1/", include("gpuplatform.quotas.api.urls")),
    path("api/v1/", include("gpuplatform.access.api.urls")),
    path("api/v1/", include("inventory.api.urls")),
    path("api/v1/", include("units.api.urls")),
    path("api/v1/", include("serverless.api.urls")),
    path("api/v1/", include("gpuplatform.tenants.api.urls")),
    path("", include("gpuplatform.api.urls")),
    path("admin", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/login/oidc/", oidc_start, name="oidc-start"),
    path("admin/login/oidc/callback/", oidc_callback, name="oidc-callback"),
    path("admin/", admin.site.urls),
]
