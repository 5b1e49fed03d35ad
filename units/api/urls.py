"""URLs of the routes of GPU units, stock and the inventory."""

from django.urls import path

from gpuplatform.api import converters as _converters  # noqa: F401 - registers them
from units.api.stock_views import Inventory, StockUnitDetail, StockUnits
from units.api.views import (
    GpuUnitDetail,
    GpuUnitEvents,
    GpuUnitHistory,
    GpuUnitLogs,
    GpuUnits,
    GpuUnitStart,
    GpuUnitStop,
)

urlpatterns = [
    path("gpu-units", GpuUnits.as_view(), name="gpu-units"),
    path("gpu-units/<name:name>", GpuUnitDetail.as_view(), name="gpu-unit"),
    path("gpu-units/<name:name>/stop", GpuUnitStop.as_view(), name="gpu-unit-stop"),
    path("gpu-units/<name:name>/start", GpuUnitStart.as_view(), name="gpu-unit-start"),
    path("gpu-units/<name:name>/logs", GpuUnitLogs.as_view(), name="gpu-unit-logs"),
    path("gpu-units/<name:name>/events", GpuUnitEvents.as_view(), name="gpu-unit-events"),
    path("gpu-units/<name:name>/history", GpuUnitHistory.as_view(), name="gpu-unit-history"),
    path("operator/stock-units", StockUnits.as_view(), name="stock-units"),
    path("operator/stock-units/<name:name>", StockUnitDetail.as_view(), name="stock-unit"),
    path("operator/inventory", Inventory.as_view(), name="inventory"),
]
