"""The CustomResourceDefinition of GPU units, generated from the models in `spec`."""

from gpuplatform.crds.schema import Presentation, PrinterColumn, crd_manifest
from gpuplatform.kube.kinds import GPU_UNIT
from units.core.names import SOURCE_NAME_ANNOTATION
from units.core.spec import GPUUnitSpec, GPUUnitStatus

_SOURCE_PATH = ".metadata.annotations['" + SOURCE_NAME_ANNOTATION.replace(".", "\\.") + "']"

GPU_UNIT_CRD = crd_manifest(
    GPU_UNIT,
    spec=GPUUnitSpec,
    status=GPUUnitStatus,
    presentation=Presentation(
        short_names=["gunit"],
        selectable_fields=[".spec.specName", ".spec.suspend", ".status.phase", ".status.cause"],
        columns=[
            PrinterColumn("Spec", "string", ".spec.specName"),
            PrinterColumn("Phase", "string", ".status.phase"),
            PrinterColumn("Access", "string", ".status.accessURL"),
            PrinterColumn("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason'),
            PrinterColumn("Cause", "string", ".status.cause"),
            PrinterColumn("Age", "date", ".metadata.creationTimestamp"),
            PrinterColumn("Exit Code", "integer", ".status.exitCode", is_wide=True),
            PrinterColumn("GPU", "integer", ".spec.gpu", is_wide=True),
            PrinterColumn("Resource", "string", ".spec.resourceName", is_wide=True),
            PrinterColumn("Image", "string", ".spec.image", is_wide=True),
            PrinterColumn("Source", "string", _SOURCE_PATH, is_wide=True),
            PrinterColumn(
                "Message", "string", '.status.conditions[?(@.type=="Ready")].message', is_wide=True
            ),
        ],
    ),
)
