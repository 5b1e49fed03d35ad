"""The service account and the permissions of each process in a cluster.

`manage.py export rbac` writes the manifests to `deploy/`, and `install_cluster --accounts` applies
them. A test compares the permissions with the audit log of the API server.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gpuplatform.deployment.installation import DEFAULT_TENANT_NAMESPACE, named_object
from gpuplatform.formats.namespaces import POOL_NAMESPACE, STOCK_NAMESPACE
from gpuplatform.kube.kinds import (
    ACTIVATOR_LEASE,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CONFIG_MAP,
    CONTROLLER_LEASE,
    DEPLOYMENT,
    EPOCH_CONFIG_MAP,
    EVENT,
    GPU_UNIT,
    JOB,
    LEASE,
    LIMIT_RANGE,
    NAMESPACE,
    NETWORK_POLICY,
    NODE,
    POD,
    REPLICA_SET,
    RESOURCE_QUOTA,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    STOCK_POOL,
    Manifest,
    ResourceKind,
)

PREFIX: Final = "gpu-platform"


class Place(StrEnum):
    """The scope of a permission."""

    CLUSTER = "cluster"
    """The whole cluster, for cluster-scoped kinds and for lists and watches of all namespaces."""
    SYSTEM = "system"
    """The namespace of the processes of the platform."""
    WORKLOADS = "workloads"
    """The namespaces with pools or units."""
    STOCK = "stock"
    """The namespace of stock units."""
    TENANTS = "tenants"
    """The namespaces of tenants."""
    TENANCY = "tenancy"
    """The whole cluster, with a separate role: the creation of namespaces of tenants."""


NAMESPACES: Final[Mapping[Place, tuple[str, ...]]] = {
    Place.WORKLOADS: (POOL_NAMESPACE, STOCK_NAMESPACE, DEFAULT_TENANT_NAMESPACE),
    Place.STOCK: (STOCK_NAMESPACE,),
    Place.TENANTS: (DEFAULT_TENANT_NAMESPACE,),
}
"""The default namespaces. `deploy/namespace` grants the permissions in additional namespaces."""


@dataclass(frozen=True, slots=True)
class Permission:
    """Verbs that are allowed on a kind of object."""

    place: Place
    kind: ResourceKind
    verbs: tuple[str, ...]
    subresource: str = ""
    name: str = ""
    """The name of the object, or empty for all objects. The verb `create` allows no name."""

    @property
    def resource(self) -> str:
        """The resource in the rule, such as `pods/log`."""
        return f"{self.kind.plural}/{self.subresource}" if self.subresource else self.kind.plural

    def rule(self) -> Manifest:
        """Return the permission as a rule of a role."""
        rule: Manifest = {
            "apiGroups": [self.kind.group],
            "resources": [self.resource],
            "verbs": list(self.verbs),
        }
        return {**rule, "resourceNames": [self.name]} if self.name else rule


@dataclass(frozen=True, slots=True)
class Account:
    """A process with its permissions. The pods of a process without permissions have no token."""

    process: str
    permissions: tuple[Permission, ...] = ()
    component: str = ""
    """The optional component in `deploy/components` that contains the process."""

    @property
    def name(self) -> str:
        """The name of the ServiceAccount."""
        return f"{PREFIX}-{self.process}"


_EPOCH: Final = (
    # The first process on a cluster creates the ConfigMap.
    Permission(Place.SYSTEM, CONFIG_MAP, ("get",), name=EPOCH_CONFIG_MAP),
    Permission(Place.SYSTEM, CONFIG_MAP, ("create",)),
)

WEB: Final = Account(
    "web",
    (  # For the pages of a pool or a unit. Other pages only read the database.
        Permission(Place.WORKLOADS, STOCK_POOL, ("get",)),
        Permission(Place.WORKLOADS, GPU_UNIT, ("get",)),
        Permission(Place.WORKLOADS, POD, ("list",)),
        Permission(Place.WORKLOADS, POD, ("get",), subresource="log"),
        Permission(Place.WORKLOADS, EVENT, ("list",)),
        Permission(Place.WORKLOADS, DEPLOYMENT, ("get",)),
        Permission(Place.WORKLOADS, JOB, ("get",)),
        Permission(Place.WORKLOADS, REPLICA_SET, ("list",)),
        Permission(Place.WORKLOADS, SERVICE, ("get",)),
    ),
)

_BOUND_ROLES: Final = (
    f"{PREFIX}-web-workloads",
    f"{PREFIX}-operations-workloads",
    f"{PREFIX}-operations-tenants",
    f"{PREFIX}-reconcile-workloads",
    f"{PREFIX}-periodic-workloads",
)
"""The roles that `namespace_manifests` binds in the namespace of a tenant."""

_TENANCY: Final = (
    # A namespace is only changed and deleted by UID, and only deleted if the platform created it.
    Permission(Place.TENANCY, NAMESPACE, ("get", "create", "patch", "delete")),
    # The bindings in the namespace of a new tenant. They grant the permissions of `TENANTS`.
    # They are deleted in an adopted namespace, which remains when its tenant is deleted.
    Permission(Place.TENANCY, ROLE_BINDING, ("create", "patch", "delete")),
    # Without this verb, the API server rejects bindings of roles with further permissions.
    *(Permission(Place.TENANCY, CLUSTER_ROLE, ("bind",), name=name) for name in _BOUND_ROLES),
    *(
        Permission(Place.TENANTS, kind, ("create", "patch", "delete"))
        for kind in (NETWORK_POLICY, RESOURCE_QUOTA, LIMIT_RANGE)
    ),
)

OPERATIONS: Final = Account(
    "operations",
    (
        *_EPOCH,
        # The lists confirm that an object is deleted.
        Permission(Place.WORKLOADS, STOCK_POOL, ("get", "list", "create", "patch", "delete")),
        Permission(Place.WORKLOADS, GPU_UNIT, ("get", "list", "create", "patch", "delete")),
        # A start waits until the objects of the stopped unit are deleted.
        Permission(Place.TENANTS, DEPLOYMENT, ("get",)),
        Permission(Place.TENANTS, JOB, ("get",)),
        Permission(Place.TENANTS, POD, ("list",)),
        # A cordon and an uncordon of a node.
        Permission(Place.CLUSTER, NODE, ("get", "patch")),
        # The NATS credentials of workers.
        Permission(Place.TENANTS, SECRET, ("get", "create", "patch", "delete")),
        *_TENANCY,
    ),
)

RECONCILE: Final = Account(
    "reconcile",
    (
        *_EPOCH,
        *(
            permission
            for kind in (STOCK_POOL, GPU_UNIT)
            for permission in (
                Permission(Place.WORKLOADS, kind, ("get", "list")),
                Permission(Place.WORKLOADS, kind, ("patch",), subresource="status"),
                # For blocking owner references, if OwnerReferencesPermissionEnforcement is
                # enabled.
                Permission(Place.WORKLOADS, kind, ("update",), subresource="finalizers"),
            )
        ),
        # The reconciler of a consumed stock unit deletes it.
        Permission(Place.STOCK, GPU_UNIT, ("delete",)),
        Permission(Place.WORKLOADS, DEPLOYMENT, ("get", "create", "patch")),
        # A Job whose template or run changes is deleted and created again.
        Permission(Place.WORKLOADS, JOB, ("get", "create", "patch", "delete")),
        Permission(Place.WORKLOADS, SERVICE, ("get", "create", "patch", "delete")),
        Permission(Place.WORKLOADS, POD, ("list",)),
        Permission(Place.WORKLOADS, REPLICA_SET, ("list",)),
        # Events about pools and units. The count of a repeated Event is incremented.
        Permission(Place.WORKLOADS, EVENT, ("get", "create", "patch")),
        # Events about the pods of a starting unit report an image pull.
        Permission(Place.WORKLOADS, EVENT, ("list",)),
    ),
)

PERIODIC: Final = Account(
    "periodic",
    (
        *_EPOCH,
        *(
            Permission(Place.CLUSTER, kind, ("list",))
            for kind in (STOCK_POOL, GPU_UNIT, DEPLOYMENT, REPLICA_SET, JOB, SERVICE, POD)
        ),
        # For the images of the nodes, and for nodes that are being drained.
        Permission(Place.CLUSTER, NODE, ("get", "list")),
        # Events about units on nodes that are being drained.
        Permission(Place.WORKLOADS, EVENT, ("get", "create", "patch")),
        # For warm images: the pods that keep them on the nodes.
        Permission(Place.STOCK, POD, ("create", "delete")),
        # For leftovers, which late writes of ended operations created.
        Permission(Place.WORKLOADS, STOCK_POOL, ("delete",)),
        Permission(Place.WORKLOADS, GPU_UNIT, ("delete",)),
    ),
)

CONTROLLER: Final = Account(
    "controller",
    (
        *_EPOCH,
        # The id of the newest operation.
        Permission(Place.SYSTEM, CONFIG_MAP, ("patch",), name=EPOCH_CONFIG_MAP),
        Permission(Place.SYSTEM, LEASE, ("get", "update"), name=CONTROLLER_LEASE),
        Permission(Place.SYSTEM, LEASE, ("create",)),
        *(
            Permission(Place.CLUSTER, kind, ("list", "watch"))
            for kind in (STOCK_POOL, GPU_UNIT, DEPLOYMENT, JOB, SERVICE, POD, NODE)
        ),
        # The recovery, which has this account, reads the tenants from their namespaces.
        Permission(Place.CLUSTER, NAMESPACE, ("list",)),
    ),
)

ACTIVATOR: Final = Account(
    "activator",
    (  # It only writes rows. The operations worker creates the workers of functions.
        *_EPOCH,
        Permission(Place.SYSTEM, LEASE, ("get", "update"), name=ACTIVATOR_LEASE),
        Permission(Place.SYSTEM, LEASE, ("create",)),
    ),
    component="serverless",
)

RESULTS: Final = Account("results", component="serverless")
BEAT: Final = Account("beat")
MIGRATE: Final = Account("migrate")

ACCOUNTS: Final = (
    *(WEB, OPERATIONS, RECONCILE, PERIODIC, BEAT, CONTROLLER),
    *(ACTIVATOR, RESULTS, MIGRATE),
)


def account_manifests(
    account: Account, system_namespace: str
) -> Iterator[tuple[ResourceKind, Manifest]]:
    """Yield the ServiceAccount, the roles and the role bindings of a process."""
    service_account = named_object(SERVICE_ACCOUNT, account.name, system_namespace)
    # Pods that require the token mount it explicitly.
    yield SERVICE_ACCOUNT, service_account | {"automountServiceAccountToken": False}
    for place, rules in _by_place(account).items():
        yield from _role(account, place, rules, system_namespace)


def namespace_manifests(
    system_namespace: str,
    namespace: str | None = None,
    *,
    places: Collection[Place] = (Place.WORKLOADS, Place.TENANTS),
) -> Iterator[tuple[ResourceKind, Manifest]]:
    """Yield the role bindings for an additional namespace, by default of a tenant.

    Without `namespace`, they have no namespace. A namespace of pools only needs the permissions of
    `Place.WORKLOADS`.
    """
    for account in ACCOUNTS:
        for place in _by_place(account):
            if place in places:
                binding = named_object(ROLE_BINDING, _role_name(account, place), namespace)
                yield (
                    ROLE_BINDING,
                    binding | _subject(CLUSTER_ROLE, account, place, system_namespace),
                )


def manifests(system_namespace: str) -> Iterator[tuple[ResourceKind, Manifest]]:
    """Yield the objects of all accounts."""
    for account in ACCOUNTS:
        yield from account_manifests(account, system_namespace)


def _by_place(account: Account) -> Mapping[Place, list[Manifest]]:
    rules: dict[Place, list[Manifest]] = defaultdict(list)
    for permission in account.permissions:
        rules[permission.place].append(permission.rule())
    return rules


def _role(
    account: Account, place: Place, rules: list[Manifest], system_namespace: str
) -> Iterator[tuple[ResourceKind, Manifest]]:
    """Yield a role and its bindings in all namespaces of the scope."""
    name = _role_name(account, place)
    role_namespace = system_namespace if place is Place.SYSTEM else None
    role = ROLE if role_namespace else CLUSTER_ROLE
    yield role, named_object(role, name, role_namespace) | {"rules": rules}
    is_for_all = place in {Place.CLUSTER, Place.TENANCY}
    binding = CLUSTER_ROLE_BINDING if is_for_all else ROLE_BINDING
    subject = _subject(role, account, place, system_namespace)
    for namespace in NAMESPACES.get(place, (role_namespace,)):
        yield binding, named_object(binding, name, namespace) | subject


def _role_name(account: Account, place: Place) -> str:
    has_suffix = place not in {Place.CLUSTER, Place.SYSTEM}
    return f"{account.name}-{place}" if has_suffix else account.name


def _subject(
    role: ResourceKind, account: Account, place: Place, system_namespace: str
) -> Manifest:
    """Return the fields of a binding of the role to the ServiceAccount."""
    name = _role_name(account, place)
    subject = {"kind": "ServiceAccount", "name": account.name, "namespace": system_namespace}
    return {
        "roleRef": {"apiGroup": role.group, "kind": role.kind, "name": name},
        "subjects": [subject],
    }
