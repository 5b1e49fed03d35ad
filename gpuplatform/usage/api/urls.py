"""URLs of the API of usage."""

from django.urls import path

from gpuplatform.usage.api.views import (
    OperatorUsage,
    OperatorUsageRecords,
    Usage,
    UsageRecords,
)

urlpatterns = [
    path("usage", Usage.as_view(), name="usage"),
    path("usage/records", UsageRecords.as_view(), name="usage-records"),
    path("operator/usage", OperatorUsage.as_view(), name="operator-usage"),
    path("operator/usage/records", OperatorUsageRecords.as_view(), name="operator-usage-records"),
]
