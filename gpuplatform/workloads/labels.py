"""Labels by which the platform's objects are selected: GPU spec, function and tenant. Pure.

`kubectl get pods -A -l runtime.lokiwager.io/spec=h100-1g` lists all pods of a GPU spec.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from gpuplatform.formats.names import LABEL_MAX, LABEL_VALUE
from gpuplatform.kube.kinds import GROUP

SPEC_LABEL: Final = f"{GROUP}/spec"
FUNCTION_LABEL: Final = f"{GROUP}/function"
"""On the objects of a worker: the id of its function."""
TENANT_LABEL: Final = f"{GROUP}/tenant"
"""On resources, Deployments and Services; the annotation of the same key has the value. Pods have
none: their namespace is the tenant's, and an edited annotation must not restart them."""


def pod_labels(spec_name: str, function_id: int | None = None) -> dict[str, str]:
    """Return the labels of a pod; they depend on immutable fields of the spec only."""
    labels = {SPEC_LABEL: spec_name}
    return labels if function_id is None else {**labels, FUNCTION_LABEL: str(function_id)}


def tenant_label(annotations: Mapping[str, Any]) -> dict[str, str]:
    """Return the label of the tenant; empty if the annotation has no valid value."""
    tenant = str(annotations.get(TENANT_LABEL, ""))
    is_valid = len(tenant) <= LABEL_MAX and re.fullmatch(LABEL_VALUE, tenant)
    return {TENANT_LABEL: tenant} if is_valid else {}
