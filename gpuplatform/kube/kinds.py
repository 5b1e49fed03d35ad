"""The kinds of Kubernetes objects that the platform reads or writes, and their API paths.

The kinds are declared, so that no process sends discovery requests at its start. A process can
also start if the resource definitions are not installed yet.
"""

from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from urllib.parse import quote

Manifest: TypeAlias = dict[str, Any]
"""A Kubernetes object as decoded JSON."""

GROUP = "runtime.lokiwager.io"
"""The API group of the custom resources, and the prefix of the labels and annotations."""
FIELD_MANAGER: Final = "gpu-platform"
"""The field manager of all writes of the platform."""
CONTROLLER_LEASE: Final = "gpu-platform-controller"
ACTIVATOR_LEASE: Final = "gpu-platform-activator"
"""The names of the Leases for leader election."""
EPOCH_CONFIG_MAP: Final = "gpu-platform-epoch"
"""The name of the ConfigMap with the epoch and the id of the newest operation."""


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """A kind with its API version and the plural name of its resource."""

    group: str
    """The API group, which is empty for the core group."""
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The `apiVersion` of a manifest, such as `apps/v1`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
        """Return the URL path of an object, or of the collection if `name` is empty.

        Without a namespace the collection contains the objects of all namespaces.

        Raises:
            ValueError: If `name` is set, the kind is namespaced and `namespace` is not set.
        """
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        elif self.namespaced and name:
            msg = f"{self.kind} '{name}' requires a namespace"
            raise ValueError(msg)
        parts += [self.plural, name, subresource]
        return "/" + "/".join(quote(part, safe="") for part in parts if part)


STOCK_POOL = ResourceKind(GROUP, "v1alpha1", "StockPool", "stockpools")
GPU_UNIT = ResourceKind(GROUP, "v1alpha1", "GPUUnit", "gpuunits")

DEPLOYMENT = ResourceKind("apps", "v1", "Deployment", "deployments")
JOB = ResourceKind("batch", "v1", "Job", "jobs")
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
RESOURCE_QUOTA = ResourceKind("", "v1", "ResourceQuota", "resourcequotas")
LIMIT_RANGE = ResourceKind("", "v1", "LimitRange", "limitranges")
NETWORK_POLICY = ResourceKind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
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
