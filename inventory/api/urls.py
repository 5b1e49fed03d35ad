"""Addresses of the stock pools."""

from django.urls import path

from gpuplatform.api import converters as _converters  # noqa: F401 - makes them known
from inventory.api.views import StockPoolDetail, StockPools

urlpatterns = [
    path("operator/stockpools", StockPools.as_view(), name="stockpools"),
    path("operator/stockpools/<name:name>", StockPoolDetail.as_view(), name="stockpool"),
]
