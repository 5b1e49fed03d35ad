"""The namespaces that belong to Kubernetes or to the platform. Pure."""

from typing import Final

STOCK_NAMESPACE: Final = "runtime-stock"
"""The namespace of all stock units."""

POOL_NAMESPACE: Final = "runtime-pools"
"""The namespace of stock pools unless the request or the configuration names another one."""

_OF_KUBERNETES: Final = "kube-"
_SHARED: Final = "default"
"""The namespace of programs for which no other namespace was chosen."""


def reserved_error(namespace: str, *, system_namespace: str) -> str:
    """Return the error of a namespace that neither pools nor tenants can have, or an empty string.

    `system_namespace` is the namespace of the processes of the platform.
    """
    if namespace == _SHARED or namespace.startswith(_OF_KUBERNETES):
        return f"The namespace '{namespace}' belongs to Kubernetes. Choose another one."
    if namespace in {STOCK_NAMESPACE, system_namespace}:
        return f"The namespace '{namespace}' belongs to the platform. Choose another one."
    return ""
