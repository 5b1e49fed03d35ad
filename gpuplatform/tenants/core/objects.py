"""The objects that the platform manages in the namespace of a tenant. Pure.

The quota and the limits are an additional check: the platform itself decides before it
accepts a request.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from gpuplatform.deployment.installation import named_object
from gpuplatform.deployment.isolation import unit_policy, worker_policy
from gpuplatform.deployment.permissions import OPERATIONS, PREFIX, Place, namespace_manifests
from gpuplatform.kube.kinds import (
    LIMIT_RANGE,
    NETWORK_POLICY,
    RESOURCE_QUOTA,
    Manifest,
    ResourceKind,
)

BASE_QUOTA: Final[Mapping[str, str]] = MappingProxyType(
    {"services.nodeports": "0", "services.loadbalancers": "0"}
)
"""The quota of every tenant: its Services are only reachable inside the cluster."""

_NO_REQUESTS: Final = {"cpu": "0", "memory": "0"}
"""The requests of containers that request nothing. They do not change the scheduling, and a quota
of requests does not reject the pods."""


def tenant_objects(
    namespace: str,
    *,
    system_namespace: str,
    queue_addresses: Iterable[str] = (),
    hard: Mapping[str, str] = BASE_QUOTA,
) -> Iterator[tuple[ResourceKind, Manifest]]:
    """Yield the objects of a tenant in the order in which they must be applied.

    The role bindings are first, and of them the one of the operations worker that permits it to
    write the other objects: the API server applies it with a short delay.

    Args:
        namespace: The namespace of the tenant.
        system_namespace: The namespace of the service accounts of the platform.
        queue_addresses: The networks of NATS servers outside of the cluster.
        hard: The quota of the namespace, by the names of a ResourceQuota.
    """
    bindings = namespace_manifests(system_namespace, namespace)
    yield from sorted(bindings, key=lambda one: not _permits(one[1]))
    yield NETWORK_POLICY, unit_policy(namespace)
    yield NETWORK_POLICY, worker_policy(namespace, queue_addresses)
    quota = named_object(RESOURCE_QUOTA, PREFIX, namespace)
    yield RESOURCE_QUOTA, {**quota, "spec": {"hard": dict(hard)}}
    limits = [{"type": "Container", "defaultRequest": _NO_REQUESTS}]
    yield (
        LIMIT_RANGE,
        {**named_object(LIMIT_RANGE, PREFIX, namespace), "spec": {"limits": limits}},
    )


def _permits(binding: Manifest) -> bool:
    name: str = binding["metadata"]["name"]
    return name == f"{OPERATIONS.name}-{Place.TENANTS}"
