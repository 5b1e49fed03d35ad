"""The CustomResourceDefinition of a stock pool, from its declared spec and status."""

from gpuplatform.crds.schema import PrinterColumn, crd_manifest
from gpuplatform.kube.kinds import STOCK_POOL
from inventory.core.spec import StockPoolSpec, StockPoolStatus

STOCK_POOL_CRD = crd_manifest(
    STOCK_POOL,
    spec=StockPoolSpec,
    status=StockPoolStatus,
    printer_columns=[
        PrinterColumn("Spec", "string", ".spec.specName"),
        PrinterColumn("Desired", "integer", ".spec.replicas"),
        PrinterColumn("Available", "integer", ".status.available"),
        PrinterColumn("Phase", "string", ".status.phase"),
        PrinterColumn("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason'),
        PrinterColumn("Cause", "string", ".status.cause"),
        PrinterColumn("Age", "date", ".metadata.creationTimestamp"),
    ],
)
