"""URLs of the routes of GPU units, stock and the inventory."""

from django.urls import path

from gpuplatform.api import converters as _converters  # noqa: F401 - registers them
from units.api.group_views import UnitGroupDetail, UnitGroups, UnitGroupStart, UnitGroupStop
from units.api.node_views import (
    NodeCordon,
    NodeDetail,
    NodeDrain,
    NodeDrainCancel,
    Nodes,
    NodeUncordon,
)
from units.api.queue_views import CapacityQueue
from units.api.spec_views import AvailableSpecDetail, AvailableSpecs
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
    path("unit-groups", UnitGroups.as_view(), name="unit-groups"),
    path("unit-groups/<name:name>", UnitGroupDetail.as_view(), name="unit-group"),
    path("unit-groups/<name:name>/stop", UnitGroupStop.as_view(), name="unit-group-stop"),
    path("unit-groups/<name:name>/start", UnitGroupStart.as_view(), name="unit-group-start"),
    path("gpu-specs", AvailableSpecs.as_view(), name="available-gpu-specs"),
    path("gpu-specs/<spec:name>", AvailableSpecDetail.as_view(), name="available-gpu-spec"),
    path("operator/stock-units", StockUnits.as_view(), name="stock-units"),
    path("operator/stock-units/<name:name>", StockUnitDetail.as_view(), name="stock-unit"),
    path("operator/nodes", Nodes.as_view(), name="nodes"),
    path("operator/nodes/<name:name>", NodeDetail.as_view(), name="node"),
    path("operator/nodes/<name:name>/cordon", NodeCordon.as_view(), name="node-cordon"),
    path("operator/nodes/<name:name>/uncordon", NodeUncordon.as_view(), name="node-uncordon"),
    path("operator/nodes/<name:name>/drain", NodeDrain.as_view(), name="node-drain"),
    path(
        "operator/nodes/<name:name>/drain/cancel",
        NodeDrainCancel.as_view(),
        name="node-drain-cancel",
    ),
    path("operator/queue", CapacityQueue.as_view(), name="capacity-queue"),
    path("operator/inventory", Inventory.as_view(), name="inventory"),
]
