"""The configuration of a node's programs: the files below its /etc, as text. Pure."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.node.images import PAUSE

SOCKET = "/run/containerd/containerd.sock"
KUBELET = "kubernetes/kubelet.json"
KUBELET_KUBECONFIG = "kubernetes/kubelet.kubeconfig"
PROXY = "kubernetes/proxy.json"
PROXY_KUBECONFIG = "kubernetes/proxy.kubeconfig"
ROUTER_KUBECONFIG = "kubernetes/router.kubeconfig"
CONTAINERD = "containerd/config.toml"
UNHEALTHY_GPUS = "unhealthy-gpus"
"""The folder whose files have the names of unhealthy GPUs."""
COPIED = ("group", "nsswitch.conf", "os-release", "passwd", "protocols", "services")
"""Files of the machine's /etc that programs read."""

# With a cgroup driver other than systemd no section of the runtime is necessary. A process without
# CAP_SYS_RESOURCE may not lower the score of the pause container below its own.
CONTAINERD_TEXT = f"""\
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "/etc/containerd/certs.d"
"""


def files(
    *,
    name: str,
    address: str,
    pod_network: str,
    cluster_network: str,
    registry: str,
    back_off_seconds: int,
) -> dict[str, str]:
    """Return the text of each file, by its path below /etc; without kubeconfigs."""
    return {
        "hostname": f"{name}\n",
        "hosts": f"127.0.0.1 localhost\n{address} {name}\n",
        CONTAINERD: CONTAINERD_TEXT,
        f"containerd/certs.d/{registry}/hosts.toml": _registry(registry),
        "cni/net.d/10-nodes.conflist": json.dumps(_network(pod_network)),
        KUBELET: json.dumps(_kubelet(address, back_off_seconds)),
        PROXY: json.dumps(_proxy(name, cluster_network)),
    }


def write(folder: Path, texts: Mapping[str, str]) -> None:
    """Write the files below a node's /etc, with some of the machine's."""
    for name in COPIED:
        source = Path("/etc", name)
        if source.is_file():
            texts = {name: source.read_text(), **texts}
    (folder / UNHEALTHY_GPUS).mkdir(parents=True)
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600 if name.endswith("kubeconfig") else 0o644)
        path.write_text(text)


def _registry(address: str) -> str:
    capabilities = 'capabilities = ["pull", "resolve"]'
    return f'server = "http://{address}"\n[host."http://{address}"]\n  {capabilities}\n'


def _network(pod_network: str) -> dict[str, Any]:
    ranges = [[{"subnet": pod_network}]]
    bridge = {
        "type": "bridge",
        "bridge": "pods",
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {"type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]},
    }
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge, portmap]}


def _kubelet(address: str, back_off_seconds: int) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": address,
        # Only this network namespace reaches the kubelet.
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "crashLoopBackOff": {"maxContainerRestartPeriod": f"{back_off_seconds}s"},
        "enforceNodeAllocatable": ["pods"],
        # The disk is the machine's, and may be fuller than a node would accept.
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
        },
        "failCgroupV1": False,
        "failSwapOn": False,
        "imageGCHighThresholdPercent": 100,
        "nodeLeaseDurationSeconds": 8,
        "nodeStatusUpdateFrequency": "2s",
        "registerNode": True,
        "resolvConf": "",
        "serializeImagePulls": False,
        "syncFrequency": "10s",
        # The sizes of volumes, by which the kubelet evicts pods.
        "volumeStatsAggPeriod": "10s",
        # /usr is read-only in a node.
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
    }


def _proxy(name: str, cluster_network: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "hostnameOverride": name,
        "clientConnection": {"kubeconfig": f"/etc/{PROXY_KUBECONFIG}"},
        "clusterCIDR": cluster_network,
        # Limits of the machine, which a node may not set.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    }
