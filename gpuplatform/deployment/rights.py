"""What each process of the platform may do in a cluster: its account and its rights.

The one declaration: `manage.py export_rbac` writes it to `deploy/`, `install_cluster --accounts`
applies it, and a test compares it with what the API server's audit log says was used.
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
    """Where a right holds."""

    CLUSTER = "cluster"
    """Everywhere: what is listed or watched over all namespaces, and what has none."""
    SYSTEM = "system"
    """The namespace of the platform's own processes."""
    WORKLOADS = "workloads"
    """Every namespace in which the platform keeps pools and units."""
    STOCK = "stock"
    """The namespace of stock units."""
    TENANTS = "tenants"
    """Namespaces of tenants."""


NAMESPACES: Final[Mapping[Place, tuple[str, ...]]] = {
    Place.WORKLOADS: (DEFAULT_NAMESPACE, STOCK_NAMESPACE, DEFAULT_TENANT_NAMESPACE),
    Place.STOCK: (STOCK_NAMESPACE,),
    Place.TENANTS: (DEFAULT_TENANT_NAMESPACE,),
}
"""Those that are installed; rights in another one are given by `deploy/namespace`."""


@dataclass(frozen=True, slots=True)
class Right:
    """Some verbs on one kind of object."""

    place: Place
    kind: ResourceKind
    verbs: tuple[str, ...]
    subresource: str = ""
    name: str = ""
    """Of the only object that is meant. A create cannot be limited so."""

    @property
    def resource(self) -> str:
        """The resource as a rule names it: `pods/log`."""
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
    """A process with all its rights; one without any has no token in its pods."""

    process: str
    rights: tuple[Right, ...] = ()
    component: str = ""
    """The optional component in `deploy/components` that contains the process."""

    @property
    def name(self) -> str:
        """The name of its ServiceAccount."""
        return f"{PREFIX}-{self.process}"


_EPOCH: Final = (
    # Whichever process is the first on a cluster makes the mark.
    Right(Place.SYSTEM, CONFIG_MAP, ("get",), name=EPOCH_CONFIG_MAP),
    Right(Place.SYSTEM, CONFIG_MAP, ("create",)),
)

WEB: Final = Account(
    "web",
    (  # What a person asks of one pool or unit; nearly everything else comes from the database.
        Right(Place.WORKLOADS, STOCK_POOL, ("get",)),
        Right(Place.WORKLOADS, GPU_UNIT, ("get",)),
        Right(Place.WORKLOADS, POD, ("list",)),
        Right(Place.WORKLOADS, POD, ("get",), subresource="log"),
        Right(Place.WORKLOADS, EVENT, ("list",)),
        Right(Place.WORKLOADS, DEPLOYMENT, ("get",)),
        Right(Place.WORKLOADS, REPLICA_SET, ("list",)),
        Right(Place.WORKLOADS, SERVICE, ("get",)),
        # Which GPUs there are, for the inventory.
        Right(Place.CLUSTER, NODE, ("list",)),
    ),
)

OPERATIONS: Final = Account(
    "operations",
    (
        *_EPOCH,
        # Lists, to make sure that what one read did not find is gone.
        Right(Place.WORKLOADS, STOCK_POOL, ("get", "list", "create", "patch", "delete")),
        Right(Place.WORKLOADS, GPU_UNIT, ("get", "list", "create", "patch", "delete")),
        # A start waits until nothing of the stopped unit is left.
        Right(Place.TENANTS, DEPLOYMENT, ("get",)),
        Right(Place.TENANTS, POD, ("list",)),
        # What the workers of a function log in to the queue with.
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
                # Owner references that hold up the owner's deletion, where admission checks them.
                Right(Place.WORKLOADS, kind, ("update",), subresource="finalizers"),
            )
        ),
        # A consumed stock unit is deleted by its own reconciler.
        Right(Place.STOCK, GPU_UNIT, ("delete",)),
        Right(Place.WORKLOADS, DEPLOYMENT, ("get", "create", "patch")),
        Right(Place.WORKLOADS, SERVICE, ("get", "create", "patch", "delete")),
        Right(Place.WORKLOADS, POD, ("list",)),
        Right(Place.WORKLOADS, REPLICA_SET, ("list",)),
        # What is told about pools and units; told again, it is counted up.
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
        # Which GPUs there are, for the samples of the capacity.
        Right(Place.CLUSTER, NODE, ("list",)),
        # What late writes of ended operations left behind.
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
    (  # Its workers are rows; the operations worker makes them.
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
    """Yield the ServiceAccount of a process, its roles and where they hold."""
    metadata = _metadata(account.name, system_namespace)
    # Pods that use the token say so themselves.
    yield (
        SERVICE_ACCOUNT,
        _object(SERVICE_ACCOUNT, metadata, automountServiceAccountToken=False),
    )
    for place, rules in _by_place(account).items():
        yield from _role(account, place, rules, system_namespace)


def namespace_manifests(system_namespace: str) -> Iterator[tuple[ResourceKind, Manifest]]:
    """Yield what gives the processes their rights in one more tenant's namespace, without it."""
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
    """Yield everything of every account."""
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
    """Yield one role; where it holds in several namespaces it is declared once, for all."""
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
