"""URLs of the limits of tenants."""

from django.urls import path

from gpuplatform.api import converters as _converters  # noqa: F401 - registers them
from gpuplatform.quotas.api.views import OwnTenant, TenantLimits

urlpatterns = [
    path("operator/tenants/<name:name>/limits", TenantLimits.as_view(), name="tenant-limits"),
    path("tenant", OwnTenant.as_view(), name="own-tenant"),
]
