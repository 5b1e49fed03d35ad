"""The CustomResourceDefinition of stock pools, generated from the models in `spec`."""

from gpuplatform.crds.schema import Presentation, PrinterColumn, crd_manifest
from gpuplatform.kube.kinds import STOCK_POOL
from inventory.core.spec import StockPoolSpec, StockPoolStatus

STOCK_POOL_CRD = crd_manifest(
    STOCK_POOL,
    spec=StockPoolSpec,
    status=StockPoolStatus,
    presentation=Presentation(
        short_names=["spool"],
        selectable_fields=[".spec.specName", ".status.phase", ".status.cause"],
        scale={
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
        columns=[
            PrinterColumn("Spec", "string", ".spec.specName"),
            PrinterColumn("Desired", "integer", ".spec.replicas"),
            PrinterColumn("Available", "integer", ".status.available"),
            PrinterColumn("Phase", "string", ".status.phase"),
            PrinterColumn("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason'),
            PrinterColumn("Cause", "string", ".status.cause"),
            PrinterColumn("Age", "date", ".metadata.creationTimestamp"),
            PrinterColumn("GPU", "integer", ".spec.gpu", is_wide=True),
            PrinterColumn("Resource", "string", ".spec.resourceName", is_wide=True),
            PrinterColumn("Memory", "string", ".spec.memory", is_wide=True),
            PrinterColumn("Image", "string", ".spec.image", is_wide=True),
            PrinterColumn(
                "Message", "string", '.status.conditions[?(@.type=="Ready")].message', is_wide=True
            ),
        ],
    ),
)
