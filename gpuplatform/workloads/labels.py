"""Labels that select objects by GPU spec, function or tenant. Pure.

For example, `kubectl get pods -A -l runtime.lokiwager.io/spec=h100-1g` lists the pods of a GPU
spec.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from gpuplatform.formats.names import LABEL_MAX, LABEL_VALUE
from gpuplatform.kube.kinds import GROUP

SPEC_LABEL: Final = f"{GROUP}/spec"
FUNCTION_LABEL: Final = f"{GROUP}/function"
"""The id of the function, on the objects of a worker."""
TENANT_LABEL: Final = f"{GROUP}/tenant"
"""The tenant, on resources, Deployments and Services. An annotation with the same key has the
value. Pods do not have the label, because an edited annotation must not restart them."""


def pod_labels(spec_name: str, function_id: int | None = None) -> dict[str, str]:
    """Return the labels of a pod, which depend only on immutable fields of the spec."""
    labels = {SPEC_LABEL: spec_name}
    return labels if function_id is None else {**labels, FUNCTION_LABEL: str(function_id)}


def tenant_label(annotations: Mapping[str, Any]) -> dict[str, str]:
    """Return the label of the tenant, or an empty dict if the annotation is not a label value."""
    tenant = str(annotations.get(TENANT_LABEL, ""))
    is_valid = len(tenant) <= LABEL_MAX and re.fullmatch(LABEL_VALUE, tenant)
    return {TENANT_LABEL: tenant} if is_valid else {}
