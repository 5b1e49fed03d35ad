"""The service account and the rights of each process in a cluster.

`manage.py export_rbac` writes them to `deploy/`, `install_cluster --accounts` applies them, and a
test compares them with the requests in the API server's audit log.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gpuplatform.deployment.installation import DEFAULT_TENANT_NAMESPACE
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
    LEASE,
    NODE,
    POD,
    REPLICA_SET,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    STOCK_POOL,
    Manifest,
    ResourceKind,
)
from gpuplatform.planning.ownership import MANAGED_BY_LABEL, MANAGER
from inventory.requests.pools import DEFAULT_NAMESPACE
from units.phases import STOCK_NAMESPACE

PREFIX: Final = "gpu-platform"


class Place(StrEnum):
    """The scope of a right."""

    CLUSTER = "cluster"
    """The whole cluster: lists and watches over all namespaces, and kinds without a namespace."""
    SYSTEM = "system"
    """The namespace of the platform's processes."""
    WORKLOADS = "workloads"
    """Every namespace with pools or units."""
    STOCK = "stock"
    """The namespace of stock units."""
    TENANTS = "tenants"
    """The namespaces of tenants."""


NAMESPACES: Final[Mapping[Place, tuple[str, ...]]] = {
    Place.WORKLOADS: (DEFAULT_NAMESPACE, STOCK_NAMESPACE, DEFAULT_TENANT_NAMESPACE),
    Place.STOCK: (STOCK_NAMESPACE,),
    Place.TENANTS: (DEFAULT_TENANT_NAMESPACE,),
}
"""The installed namespaces; `deploy/namespace` grants rights in another one."""


@dataclass(frozen=True, slots=True)
class Right:
    """Verbs on one kind of object."""

    place: Place
    kind: ResourceKind
    verbs: tuple[str, ...]
    subresource: str = ""
    name: str = ""
    """Restricts the right to one object; `create` cannot be restricted."""

    @property
    def resource(self) -> str:
        """The resource as in a rule, for example `pods/log`."""
        return f"{self.kind.plural}/{self.subresource}" if self.subresource else self.kind.plural

    def rule(self) -> Manifest:
        """Return the rule of a role."""
        rule: Manifest = {
            "apiGroups": [self.kind.group],
            "resources": [self.resource],
            "verbs": list(self.verbs),
        }
        return {**rule, "resourceNames": [self.name]} if self.name else rule


@dataclass(frozen=True, slots=True)
class Account:
    """A process with its rights; without rights its pods have no token."""

    process: str
    rights: tuple[Right, ...] = ()
    component: str = ""
    """The optional component in `deploy/components` that contains the process."""

    @property
    def name(self) -> str:
        """The name of its ServiceAccount."""
        return f"{PREFIX}-{self.process}"


_EPOCH: Final = (
    # The first process on a cluster creates the ConfigMap.
    Right(Place.SYSTEM, CONFIG_MAP, ("get",), name=EPOCH_CONFIG_MAP),
    Right(Place.SYSTEM, CONFIG_MAP, ("create",)),
)

WEB: Final = Account(
    "web",
    (  # Pages of one pool or unit; nearly everything else is read from the database.
        Right(Place.WORKLOADS, STOCK_POOL, ("get",)),
        Right(Place.WORKLOADS, GPU_UNIT, ("get",)),
        Right(Place.WORKLOADS, POD, ("list",)),
        Right(Place.WORKLOADS, POD, ("get",), subresource="log"),
        Right(Place.WORKLOADS, EVENT, ("list",)),
        Right(Place.WORKLOADS, DEPLOYMENT, ("get",)),
        Right(Place.WORKLOADS, REPLICA_SET, ("list",)),
        Right(Place.WORKLOADS, SERVICE, ("get",)),
        # The GPUs of the nodes, for the inventory.
        Right(Place.CLUSTER, NODE, ("list",)),
    ),
)

OPERATIONS: Final = Account(
    "operations",
    (
        *_EPOCH,
        # Lists, to confirm that an object that one read did not find is deleted.
        Right(Place.WORKLOADS, STOCK_POOL, ("get", "list", "create", "patch", "delete")),
        Right(Place.WORKLOADS, GPU_UNIT, ("get", "list", "create", "patch", "delete")),
        # A start waits until all objects of the stopped unit are deleted.
        Right(Place.TENANTS, DEPLOYMENT, ("get",)),
        Right(Place.TENANTS, POD, ("list",)),
        # Credentials of a function's workers for the queue.
        Right(Place.TENANTS, SECRET, ("get", "create", "patch", "delete")),
    ),
)

RECONCILE: Final = Account(
    "reconcile",
    (
        *_EPOCH,
        *(
            right
            for kind in (STOCK_POOL, GPU_UNIT)
            for right in (
                Right(Place.WORKLOADS, kind, ("get", "list")),
                Right(Place.WORKLOADS, kind, ("patch",), subresource="status"),
                # Owner references that block the owner's deletion, where admission checks them.
                Right(Place.WORKLOADS, kind, ("update",), subresource="finalizers"),
            )
        ),
        # A consumed stock unit is deleted by its own reconciler.
        Right(Place.STOCK, GPU_UNIT, ("delete",)),
        Right(Place.WORKLOADS, DEPLOYMENT, ("get", "create", "patch")),
        Right(Place.WORKLOADS, SERVICE, ("get", "create", "patch", "delete")),
        Right(Place.WORKLOADS, POD, ("list",)),
        Right(Place.WORKLOADS, REPLICA_SET, ("list",)),
        # Events about pools and units; repeated ones are counted.
        Right(Place.WORKLOADS, EVENT, ("get", "create", "patch")),
    ),
)

PERIODIC: Final = Account(
    "periodic",
    (
        *_EPOCH,
        *(
            Right(Place.CLUSTER, kind, ("list",))
            for kind in (STOCK_POOL, GPU_UNIT, DEPLOYMENT, REPLICA_SET, SERVICE, POD)
        ),
        # The GPUs of the nodes, for the samples of capacity.
        Right(Place.CLUSTER, NODE, ("list",)),
        # Leftovers: objects that late writes of ended operations created.
        Right(Place.WORKLOADS, STOCK_POOL, ("delete",)),
        Right(Place.WORKLOADS, GPU_UNIT, ("delete",)),
    ),
)

CONTROLLER: Final = Account(
    "controller",
    (
        *_EPOCH,
        # The number of the newest operation.
        Right(Place.SYSTEM, CONFIG_MAP, ("patch",), name=EPOCH_CONFIG_MAP),
        Right(Place.SYSTEM, LEASE, ("get", "update"), name=CONTROLLER_LEASE),
        Right(Place.SYSTEM, LEASE, ("create",)),
        *(
            Right(Place.CLUSTER, kind, ("list", "watch"))
            for kind in (STOCK_POOL, GPU_UNIT, DEPLOYMENT, SERVICE, POD, NODE)
        ),
    ),
)

ACTIVATOR: Final = Account(
    "activator",
    (  # It writes rows only; the operations worker creates the workers.
        *_EPOCH,
        Right(Place.SYSTEM, LEASE, ("get", "update"), name=ACTIVATOR_LEASE),
        Right(Place.SYSTEM, LEASE, ("create",)),
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
    """Yield the ServiceAccount of a process, its roles and their bindings."""
    metadata = _metadata(account.name, system_namespace)
    # Pods that need the token mount it explicitly.
    yield (
        SERVICE_ACCOUNT,
        _object(SERVICE_ACCOUNT, metadata, automountServiceAccountToken=False),
    )
    for place, rules in _by_place(account).items():
        yield from _role(account, place, rules, system_namespace)


def namespace_manifests(system_namespace: str) -> Iterator[tuple[ResourceKind, Manifest]]:
    """Yield the bindings for one more tenant's namespace; they name no namespace."""
    for account in ACCOUNTS:
        for place in _by_place(account):
            if place in {Place.WORKLOADS, Place.TENANTS}:
                name = _role_name(account, place)
                yield (
                    ROLE_BINDING,
                    _binding(
                        ROLE_BINDING, CLUSTER_ROLE, _metadata(name), account, system_namespace
                    ),
                )


def manifests(system_namespace: str) -> Iterator[tuple[ResourceKind, Manifest]]:
    """Yield all objects of all accounts."""
    for account in ACCOUNTS:
        yield from account_manifests(account, system_namespace)


def _by_place(account: Account) -> Mapping[Place, list[Manifest]]:
    rules: dict[Place, list[Manifest]] = defaultdict(list)
    for right in account.rights:
        rules[right.place].append(right.rule())
    return rules


def _role(
    account: Account, place: Place, rules: Iterable[Manifest], system_namespace: str
) -> Iterator[tuple[ResourceKind, Manifest]]:
    """Yield one role and its bindings; a role for several namespaces is declared once."""
    name = _role_name(account, place)
    role_namespace = system_namespace if place is Place.SYSTEM else None
    role = ROLE if role_namespace else CLUSTER_ROLE
    yield role, _object(role, _metadata(name, role_namespace), rules=list(rules))
    binding = CLUSTER_ROLE_BINDING if place is Place.CLUSTER else ROLE_BINDING
    for namespace in NAMESPACES.get(place, (role_namespace,)):
        metadata = _metadata(name, namespace)
        yield binding, _binding(binding, role, metadata, account, system_namespace)


def _role_name(account: Account, place: Place) -> str:
    is_alone = place in {Place.CLUSTER, Place.SYSTEM}
    return account.name if is_alone else f"{account.name}-{place}"


def _binding(
    kind: ResourceKind,
    role: ResourceKind,
    metadata: Manifest,
    account: Account,
    system_namespace: str,
) -> Manifest:
    subject = {"kind": "ServiceAccount", "name": account.name, "namespace": system_namespace}
    reference = {"apiGroup": role.group, "kind": role.kind, "name": metadata["name"]}
    return _object(kind, metadata, roleRef=reference, subjects=[subject])


def _metadata(name: str, namespace: str | None = None) -> Manifest:
    metadata: Manifest = {"name": name, "labels": {MANAGED_BY_LABEL: MANAGER}}
    return {**metadata, "namespace": namespace} if namespace else metadata


def _object(kind: ResourceKind, metadata: Manifest, **fields: object) -> Manifest:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **fields}
