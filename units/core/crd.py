"""The CustomResourceDefinition of a GPU unit, from its declared spec and status."""

from gpuplatform.crds.schema import PrinterColumn, crd_manifest
from gpuplatform.kube.kinds import GPU_UNIT
from units.core.spec import GPUUnitSpec, GPUUnitStatus

GPU_UNIT_CRD = crd_manifest(
    GPU_UNIT,
    spec=GPUUnitSpec,
    status=GPUUnitStatus,
    printer_columns=[
        PrinterColumn("Spec", "string", ".spec.specName"),
        PrinterColumn("Phase", "string", ".status.phase"),
        PrinterColumn("Access", "string", ".status.accessURL"),
        PrinterColumn("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason'),
        PrinterColumn("Cause", "string", ".status.cause"),
        PrinterColumn("Age", "date", ".metadata.creationTimestamp"),
    ],
)
