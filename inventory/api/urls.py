"""URLs of the stock pool and GPU spec routes."""

from django.urls import path

from gpuplatform.api import converters as _converters  # noqa: F401 - registers them
from inventory.api.views import GpuSpecDetail, GpuSpecs, StockPoolDetail, StockPools

urlpatterns = [
    path("operator/stockpools", StockPools.as_view(), name="stockpools"),
    path("operator/stockpools/<name:name>", StockPoolDetail.as_view(), name="stockpool"),
    path("operator/gpu-specs", GpuSpecs.as_view(), name="gpu-specs"),
    path("operator/gpu-specs/<spec:name>", GpuSpecDetail.as_view(), name="gpu-spec"),
]
