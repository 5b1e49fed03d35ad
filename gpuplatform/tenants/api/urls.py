"""URLs of the tenant routes."""

from django.urls import path

from gpuplatform.api import converters as _converters  # noqa: F401 - registers them
from gpuplatform.tenants.api.views import (
    TenantDetail,
    TenantResume,
    Tenants,
    TenantSuspend,
)

urlpatterns = [
    path("operator/tenants", Tenants.as_view(), name="tenants"),
    path("operator/tenants/<name:name>", TenantDetail.as_view(), name="tenant"),
    path("operator/tenants/<name:name>/suspend", TenantSuspend.as_view(), name="tenant-suspend"),
    path("operator/tenants/<name:name>/resume", TenantResume.as_view(), name="tenant-resume"),
]
