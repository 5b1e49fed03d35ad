"""The network policies of the namespaces with pools and units. Pure.

`manage.py export policies` writes them to `deploy/`, and `install_cluster` applies them. Policies
are additive: a connection is allowed if one policy of the pod allows it.
"""

from collections.abc import Iterable, Iterator
from ipaddress import ip_address, ip_network
from typing import Any, Final
from urllib.parse import urlsplit

from gpuplatform.deployment.installation import DEFAULT_TENANT_NAMESPACE, named_object
from gpuplatform.formats.namespaces import POOL_NAMESPACE, STOCK_NAMESPACE
from gpuplatform.kube.kinds import GROUP, NETWORK_POLICY, Manifest, ResourceKind
from gpuplatform.workloads.labels import FUNCTION_LABEL

QUEUE_PORT: Final = 4222
"""The port of NATS."""

QUEUE_LABEL: Final = {f"{GROUP}/serves": "queue"}
"""The label of the namespace with the NATS server."""

CALLERS_LABEL: Final = {f"{GROUP}/calls": "units"}
"""The label of namespaces that may connect to units."""

_PRIVATE: Final = (
    "10.0.0.0/8",
    "100.64.0.0/10",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
)
_PRIVATE_6: Final = ("fc00::/7", "fe80::/10")
_DNS: Final = {
    "to": [
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
            # The default label of CoreDNS. If CoreDNS has another label, replace it in an overlay.
            "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
        }
    ],
    "ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}],
}


def unit_policy(namespace: str | None = None) -> Manifest:
    """Return the policy of all pods in a namespace of units.

    It allows connections from the namespace and from labelled namespaces, and connections to the
    namespace and to the internet, but not to private networks and cloud metadata services.
    """
    internet = [
        {"ipBlock": {"cidr": "0.0.0.0/0", "except": [*_PRIVATE]}},
        {"ipBlock": {"cidr": "::/0", "except": [*_PRIVATE_6]}},
    ]
    spec = {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [
            {
                "from": [
                    {"podSelector": {}},
                    {"namespaceSelector": {"matchLabels": {**CALLERS_LABEL}}},
                ]
            }
        ],
        "egress": [_DNS, {"to": [{"podSelector": {}}]}, {"to": internet}],
    }
    return _policy("gpu-platform-units", namespace, spec)


def worker_policy(namespace: str | None = None, addresses: Iterable[str] = ()) -> Manifest:
    """Return the policy that lets the workers of functions connect to the queue.

    `addresses` are the networks, such as `10.0.5.20/32`, of NATS servers outside the cluster.
    """
    peers: list[Manifest] = [{"namespaceSelector": {"matchLabels": {**QUEUE_LABEL}}}]
    peers += [{"ipBlock": {"cidr": address}} for address in addresses]
    spec = {
        "podSelector": {"matchExpressions": [{"key": FUNCTION_LABEL, "operator": "Exists"}]},
        "policyTypes": ["Egress"],
        "egress": [{"to": peers, "ports": [{"protocol": "TCP", "port": QUEUE_PORT}]}],
    }
    return _policy("gpu-platform-workers", namespace, spec)


def stock_policy() -> Manifest:
    """Return the policy of stock units, which only reserve GPUs: it denies all connections."""
    spec = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    return _policy("gpu-platform", STOCK_NAMESPACE, spec)


def policies(
    addresses: Iterable[str] = (), pool_namespaces: Iterable[str] = ()
) -> Iterator[tuple[ResourceKind, Manifest]]:
    """Yield the policies of the namespaces of stock, of the default tenant and of pools."""
    yield NETWORK_POLICY, stock_policy()
    for namespace in dict.fromkeys((POOL_NAMESPACE, *pool_namespaces)):
        yield NETWORK_POLICY, unit_policy(namespace)
    yield NETWORK_POLICY, unit_policy(DEFAULT_TENANT_NAMESPACE)
    yield NETWORK_POLICY, worker_policy(DEFAULT_TENANT_NAMESPACE, addresses)


def queue_networks(url: str) -> list[str]:
    """Return the network of the IP address in the URL of a NATS server outside of the cluster.

    Names and loopback addresses have none.
    """
    try:
        address = ip_address(urlsplit(url).hostname or "")
    except ValueError:
        return []
    return [] if address.is_loopback else [str(ip_network(address))]


def _policy(name: str, namespace: str | None, spec: dict[str, Any]) -> Manifest:
    return {**named_object(NETWORK_POLICY, name, namespace), "spec": spec}
