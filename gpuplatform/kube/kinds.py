"""The kinds of Kubernetes objects that the platform reads or writes, and their API paths.

Declared here instead of discovered, so that no process needs discovery requests at its start, and
a cluster without the resource definitions gives a clear error instead of a failed start.
"""

from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from urllib.parse import quote

Manifest: TypeAlias = dict[str, Any]
"""A Kubernetes object as decoded JSON: dicts, lists, strings, numbers, booleans, None."""

GROUP = "runtime.lokiwager.io"
"""The API group of the platform's own resources, and the prefix of its labels and annotations."""
FIELD_MANAGER: Final = "gpu-platform"
"""The field manager of the platform's writes (server-side apply)."""
CONTROLLER_LEASE: Final = "gpu-platform-controller"
ACTIVATOR_LEASE: Final = "gpu-platform-activator"
"""Names of the leases by which each of these processes elects its leader."""
EPOCH_CONFIG_MAP: Final = "gpu-platform-epoch"
"""Name of the ConfigMap with the epoch and the number of the newest operation."""


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """A kind, its API version and the name of its collection."""

    group: str
    """Empty for the core group."""
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its manifests: `apps/v1`, or `v1` in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
        """Return the URL path of an object, or of a collection when `name` is empty.

        Without a namespace the collection of a namespaced kind spans all namespaces.

        Raises:
            ValueError: An object of a namespaced kind was requested without its namespace.
        """
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        elif self.namespaced and name:
            msg = f"{self.kind} '{name}' needs a namespace"
            raise ValueError(msg)
        parts += [self.plural, name, subresource]
        return "/" + "/".join(quote(part, safe="") for part in parts if part)


STOCK_POOL = ResourceKind(GROUP, "v1alpha1", "StockPool", "stockpools")
GPU_UNIT = ResourceKind(GROUP, "v1alpha1", "GPUUnit", "gpuunits")

DEPLOYMENT = ResourceKind("apps", "v1", "Deployment", "deployments")
REPLICA_SET = ResourceKind("apps", "v1", "ReplicaSet", "replicasets")
POD = ResourceKind("", "v1", "Pod", "pods")
SERVICE = ResourceKind("", "v1", "Service", "services")
CONFIG_MAP = ResourceKind("", "v1", "ConfigMap", "configmaps")
SECRET = ResourceKind("", "v1", "Secret", "secrets")
EVENT = ResourceKind("", "v1", "Event", "events")
LEASE = ResourceKind("coordination.k8s.io", "v1", "Lease", "leases")
SERVICE_ACCOUNT = ResourceKind("", "v1", "ServiceAccount", "serviceaccounts")
ROLE = ResourceKind("rbac.authorization.k8s.io", "v1", "Role", "roles")
ROLE_BINDING = ResourceKind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
CLUSTER_ROLE = ResourceKind(
    "rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False
)
CLUSTER_ROLE_BINDING = ResourceKind(
    "rbac.authorization.k8s.io",
    "v1",
    "ClusterRoleBinding",
    "clusterrolebindings",
    namespaced=False,
)
NODE = ResourceKind("", "v1", "Node", "nodes", namespaced=False)
NAMESPACE = ResourceKind("", "v1", "Namespace", "namespaces", namespaced=False)
PRIORITY_CLASS = ResourceKind(
    "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False
)
CUSTOM_RESOURCE_DEFINITION = ResourceKind(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    namespaced=False,
)
