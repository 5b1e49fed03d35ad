"""Addresses of the stock pools."""

from django.urls import path

from inventory.api.views import StockPoolDetail, StockPools

urlpatterns = [
    path("operator/stockpools", StockPools.as_view(), name="stockpools"),
    path("operator/stockpools/<str:name>", StockPoolDetail.as_view(), name="stockpool"),
]
