"""The flags and the configuration files of the components of a control plane."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

AUDIT_LOG = "audit.log"
"""The audit log in the folder: a line of JSON for each request of a ServiceAccount."""
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None"},
    ],
}
SERVICE_NETWORK = "10.96.0.0/16"
NODES_PORT = 6443
"""The port of the API server of real nodes, which the network policies of `deploy/` allow."""
KUBE_PROXY = "system:kube-proxy"
"""The user of kube-proxy, to which the bootstrap policy of RBAC grants its permissions."""

_BACK_OFF_SECONDS = 1
"""Maximum back-off of unschedulable pods in the scheduler; the default is ten seconds."""
_ALONE = ("--leader-elect=false", "--bind-address=127.0.0.1")
_REQUESTS, _UNTHROTTLED_REQUESTS = (500, 1000), (2000, 4000)
"""Requests per second and burst of the controllers and the scheduler."""
_EVICTION = ("node-lifecycle", "taint-eviction", "device-taint-eviction")
_UNTHROTTLED_CONTROLLERS = [
    "--concurrent-deployment-syncs=20",
    "--concurrent-replicaset-syncs=20",
    "--concurrent-gc-syncs=20",
    "--controllers=" + ",".join(["*", *(f"-{name}-controller" for name in _EVICTION)]),
]
"""Flags without eviction: the load of a benchmark can delay the heartbeats of nodes."""


@dataclass(frozen=True, slots=True)
class RealNodes:
    """The real nodes of a control plane: where they reach it, and their users."""

    address: str
    """The address of the API server in the network of the nodes."""
    names: Sequence[str]
    tokens: Mapping[str, str] = field(init=False)
    """The token of each user: of the kubelet of each node, and of kube-proxy."""

    def __post_init__(self) -> None:
        users = [*map(node_user, self.names), KUBE_PROXY]
        object.__setattr__(self, "tokens", {user: secrets.token_urlsafe(24) for user in users})

    def token_lines(self) -> list[str]:
        """Return the lines of the token file of the API server."""
        groups = dict.fromkeys(map(node_user, self.names), "system:nodes")
        groups[KUBE_PROXY] = "system:node-proxier"
        return [f'{self.tokens[user]},{user},{user},"{groups[user]}"' for user in groups]


def node_user(name: str) -> str:
    """Return the user of a node's kubelet."""
    return f"system:node:{name}"


def etcd_flags(data: Path, client: int, peer: int) -> list[str]:
    """Return the flags of a single etcd without durability."""
    client_url, peer_url = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
    return [
        f"--data-dir={data}",
        f"--listen-client-urls={client_url}",
        f"--advertise-client-urls={client_url}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=default={peer_url}",
        "--unsafe-no-fsync",
        "--backend-batch-interval=2s",
        "--log-level=warn",
    ]


def apiserver_flags(folder: Path, etcd: int, port: int, nodes: RealNodes | None) -> list[str]:
    """Return the flags of an API server with RBAC and ServiceAccount tokens.

    It creates its certificate in `folder/certs`; the same key signs the tokens.
    """
    key = folder / "certs" / "apiserver.key"
    return [
        f"--etcd-servers=http://127.0.0.1:{etcd}",
        f"--secure-port={port}",
        f"--cert-dir={folder / 'certs'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        f"--service-cluster-ip-range={SERVICE_NETWORK}",
        f"--audit-policy-file={folder / 'audit-policy.json'}",
        f"--audit-log-path={folder / AUDIT_LOG}",
        "--delete-collection-workers=4",
        # Requests of administrators are not queued, so priority and fairness is not needed.
        "--enable-priority-and-fairness=false",
        *(_for_real_nodes(nodes) if nodes else _FOR_SIMULATED_NODES),
    ]


# Some distributions enable it: an owner reference needs a permission.
_OWNERS = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"
_FOR_SIMULATED_NODES = [
    "--bind-address=127.0.0.1",
    "--authorization-mode=RBAC",
    _OWNERS,
    # No program runs in the pods, so they need no ServiceAccount and no address of the API server.
    "--disable-admission-plugins=ServiceAccount",
    "--endpoint-reconciler-type=none",
]


def _for_real_nodes(nodes: RealNodes) -> list[str]:
    return [
        # The certificate that the API server creates is then for the advertised address.
        "--bind-address=0.0.0.0",
        f"--advertise-address={nodes.address}",
        "--authorization-mode=Node,RBAC",
        f"{_OWNERS},NodeRestriction",
        "--allow-privileged=true",
        "--kubelet-preferred-address-types=InternalIP",
    ]


def controller_flags(
    kubeconfig: Path, folder: Path, port: int, nodes: RealNodes | None, *, is_unthrottled: bool
) -> list[str]:
    """Return the flags of the controller manager."""
    qps, burst = _UNTHROTTLED_REQUESTS if is_unthrottled else _REQUESTS
    certificates = folder / "certs"
    flags = [
        f"--kubeconfig={kubeconfig}",
        f"--secure-port={port}",
        f"--service-account-private-key-file={certificates / 'apiserver.key'}",
        *_ALONE,
        "--node-monitor-period=2s",
        "--node-monitor-grace-period=16s",
        f"--kube-api-qps={qps}",
        f"--kube-api-burst={burst}",
    ]
    if nodes:
        # Pods find the authority of the API server next to the token of their ServiceAccount.
        flags += [f"--root-ca-file={certificates / 'apiserver.crt'}"]
        flags += ["--use-service-account-credentials=true"]
    return flags + (_UNTHROTTLED_CONTROLLERS if is_unthrottled else [])


def scheduler_flags(config: Path, port: int) -> list[str]:
    """Return the flags of the scheduler."""
    return [f"--config={config}", f"--secure-port={port}", *_ALONE]


def scheduler_configuration(kubeconfig: Path, *, is_unthrottled: bool) -> dict[str, Any]:
    """Return the configuration file of the scheduler."""
    qps, burst = _UNTHROTTLED_REQUESTS if is_unthrottled else _REQUESTS
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": qps, "burst": burst},
        "podMaxBackoffSeconds": _BACK_OFF_SECONDS,
    }
