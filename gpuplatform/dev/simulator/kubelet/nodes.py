"""Simulated nodes: registration, leases, status and taints."""

import asyncio
import logging
import random
import time
from collections.abc import Collection
from dataclasses import dataclass

from gpuplatform.dev.simulator.kubelet.client import ApiClient, Manifest, pause
from gpuplatform.dev.simulator.kubelet.control import Control, NodeControl
from gpuplatform.dev.simulator.kubelet.endpoint import HOST, WEB_SOCKETS, Endpoint
from gpuplatform.dev.simulator.kubelet.options import PRODUCT_LABEL, Options
from gpuplatform.dev.simulator.kubelet.statuses import conditions_of
from gpuplatform.dev.simulator.kubelet.texts import digest, repository_of, timestamp
from gpuplatform.kube.errors import ClusterConflict, ClusterError, ClusterRejected
from gpuplatform.kube.fields import items, text

log = logging.getLogger(__name__)

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
LEASE_DURATION_SECONDS = 40
MAX_IMAGES = 50
"""Maximum number of images in the status of a node, as by default in a kubelet."""
STATUS_SECONDS = 300.0
"""Time in seconds after which an unchanged status is written again. The lease is the heartbeat."""
NOT_READY_TAINT = "node.kubernetes.io/not-ready"

_PRESSURES = {
    "MemoryPressure": (
        ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
        ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ),
    "DiskPressure": (
        ("KubeletHasDiskPressure", "kubelet has disk pressure"),
        ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ),
    "PIDPressure": (
        ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
        ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ),
}
"""The reason and the message of each condition of pressure, when it is true and when it is not."""


def host_ip(number: int) -> str:
    """Return the IP address of a node by its index, which starts at 0."""
    return f"10.100.{number // 250}.{number % 250 + 1}"


def node_manifest(options: Options, name: str) -> Manifest:
    """Return the Node object that the kubelet creates, without status."""
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }
    if options.gpus:
        labels |= {PRODUCT_LABEL: options.product, "nvidia.com/gpu.count": str(options.gpus)}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


@dataclass(frozen=True, slots=True)
class NodePlace:
    """The index of a node, and the port of its kubelet on loopback.

    API servers prefer the address `Hostname`, which is loopback: `InternalIP` is not reachable.
    """

    number: int
    port: int


def node_status(
    options: Options, control: NodeControl, node: Manifest, place: NodePlace, now: float
) -> Manifest:
    """Return the node status that the kubelet reports, without images."""
    name = node["metadata"]["name"]
    known = conditions_of(node.get("status") or {})
    resources = {
        "cpu": options.cpu,
        "memory": options.memory,
        "pods": str(options.pods),
        "ephemeral-storage": "1Ti",
    }
    resources |= {device: str(number) for device, number in options.devices().items()}
    reduced = {device: str(number) for device, number in control.devices(options).items()}
    ready = ("Ready", not control.not_ready, *_ready_explanation(control))
    return {
        "capacity": resources,
        "allocatable": resources | reduced,
        "addresses": [
            {"type": "InternalIP", "address": host_ip(place.number)},
            {"type": "Hostname", "address": HOST},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": place.port}},
        "declaredFeatures": [WEB_SOCKETS],
        "conditions": [
            _condition(known.get(entry[0], {}), entry, now)
            for entry in (*_pressures(control), ready)
        ],
        "nodeInfo": _node_info(name),
    }


def node_images(node: Manifest, images: Collection[str]) -> list[Manifest]:
    """Return the images that the kubelet reports. No image is deleted.

    Args:
        node: The node with the images that were reported before.
        images: The full references of the images of containers.
    """
    known = [items(entry, "names")[-1:] for entry in items(node, "status", "images")]
    names = {name for [name] in filter(None, known) if isinstance(name, str)} | set(images)
    return [
        {"names": [f"{repository_of(name)}@sha256:{digest(name)}", name], "sizeBytes": 1_000_000}
        for name in sorted(names)[:MAX_IMAGES]
    ]


def _ready_explanation(control: NodeControl) -> tuple[str, str]:
    if control.not_ready:
        return "KubeletNotReady", "container runtime is down"
    return "KubeletReady", "kubelet is posting ready status"


def _pressures(control: NodeControl) -> list[tuple[str, bool, str, str]]:
    """Return the conditions of pressure; a node whose pods are evicted lacks memory."""
    true = control.pressures | ({"MemoryPressure"} if control.evict else set())
    return [
        (name, name in true, *(explained[0] if name in true else explained[1]))
        for name, explained in _PRESSURES.items()
    ]


def _condition(known: Manifest, entry: tuple[str, bool, str, str], now: float) -> Manifest:
    name, is_true, reason, message = entry
    status = "True" if is_true else "False"
    changed = known.get("status") != status or not known.get("lastTransitionTime")
    return {
        "type": name,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": timestamp(now),
        "lastTransitionTime": timestamp(now) if changed else text(known, "lastTransitionTime"),
    }


def _node_info(name: str) -> Manifest:
    identity = digest(name)
    return {
        "machineID": identity[:32],
        "systemUUID": identity[:32],
        "bootID": identity[32:],
        "kernelVersion": "6.1.0",
        "osImage": "Simulated",
        "containerRuntimeVersion": "containerd://2.1.0",
        "kubeletVersion": "v1.36.3",
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }


def has_changed(old: Manifest, new: Manifest) -> bool:
    """Return whether two statuses differ in anything except heartbeat times."""
    conditions = {
        name: (entry.get("status"), entry.get("reason"))
        for name, entry in conditions_of(old).items()
    }
    return (
        old.get("allocatable") != new["allocatable"]
        or old.get("capacity") != new["capacity"]
        or old.get("daemonEndpoints") != new["daemonEndpoints"]
        or (old.get("images") or []) != new["images"]
        or any(
            conditions.get(entry["type"]) != (entry["status"], entry["reason"])
            for entry in new["conditions"]
        )
    )


class Nodes:
    """The nodes of this process, with their registration, heartbeats and status."""

    def __init__(self, client: ApiClient, options: Options, endpoint: Endpoint) -> None:
        self._client = client
        self._options = options
        self._endpoint = endpoint
        self._known: dict[str, Manifest] = {}
        self._missing: set[str] = set()
        self._changed = {name: asyncio.Event() for name in options.node_names()}
        self._images: dict[str, set[str]] = {name: set() for name in options.node_names()}
        self._reported: dict[str, float] = {}
        self.control = Control()

    def on_list(self, items: list[Manifest]) -> None:
        """Replace the known nodes. Missing nodes of this process are registered later."""
        self._known = {node["metadata"]["name"]: node for node in items}
        self._missing = self._changed.keys() - self._known.keys()
        self.wake()

    def on_event(self, event: str, node: Manifest) -> None:
        """Store a changed node. A deleted node is registered again only after the next list."""
        name = node["metadata"]["name"]
        if event == "DELETED":
            self._known.pop(name, None)
        else:
            self._known[name] = node
        if name in self._changed:
            self._changed[name].set()

    def add_images(self, name: str, images: set[str]) -> None:
        """Store the images that containers of a node use, and report them if they are new."""
        if not images <= self._images[name]:
            self._images[name] |= images
            self._changed[name].set()

    def wake(self) -> None:
        """Schedule an immediate sync of all nodes."""
        for changed in self._changed.values():
            changed.set()

    async def run(self, name: str, number: int, stop: asyncio.Event) -> None:
        """Maintain a node until `stop` is set."""
        lease_due = 0.0
        while not stop.is_set():
            self._changed[name].clear()
            try:
                await self._sync(name, number)
                if time.monotonic() >= lease_due and not self.control.node(name).failed:
                    await self._renew(name)
                    jitter = random.uniform(0.9, 1.05)  # noqa: S311 - spreads load
                    lease_due = time.monotonic() + self._options.lease_seconds * jitter
            except ClusterError as error:
                log.debug("Node %s: %s", name, error)
                await self._retry_later(name, stop)
            except Exception:  # An odd node must not end the kubelet.
                log.exception("Node %s: unexpected error", name)
                await self._retry_later(name, stop)
            await pause(max(lease_due - time.monotonic(), 0.5), self._changed[name])

    async def _retry_later(self, name: str, stop: asyncio.Event) -> None:
        await pause(1.0, stop)
        self._changed[name].set()

    async def _sync(self, name: str, number: int) -> None:
        control = self.control.node(name)
        if control.failed:
            return
        if name in self._missing:
            await self._register(name)
        node = self._known.get(name)
        if node is None:
            return
        place = NodePlace(number, self._endpoint.port)
        status = node_status(self._options, control, node, place, time.time())
        status["images"] = node_images(node, self._images[name])
        repeat = time.monotonic() - self._reported.get(name, 0.0) > STATUS_SECONDS
        if repeat or has_changed(node.get("status") or {}, status):
            self._known[name] = await self._client.merge_patch(
                f"/api/v1/nodes/{name}/status", {"status": status}
            )
            self._reported[name] = time.monotonic()
        await self._remove_taint(name, control)

    async def _register(self, name: str) -> None:
        try:
            node = await self._client.request(
                "POST", "/api/v1/nodes", body=node_manifest(self._options, name)
            )
        except ClusterConflict:
            node = await self._client.request("GET", f"/api/v1/nodes/{name}")
        self._known[name] = node
        self._missing.discard(name)

    async def _remove_taint(self, name: str, control: NodeControl) -> None:
        """Remove the initial taint of a node, for clusters without a node controller."""
        node = self._known[name]
        taints = items(node, "spec", "taints")
        others = [taint for taint in taints if text(taint, "key") != NOT_READY_TAINT]
        if control.not_ready or len(others) == len(taints):
            return
        version = node["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": version}, "spec": {"taints": others or None}}
        try:
            self._known[name] = await self._client.merge_patch(f"/api/v1/nodes/{name}", patch)
        except ClusterConflict:
            log.debug("Node %s: conflict with another writer", name)

    async def _renew(self, name: str) -> None:
        now = timestamp(time.time()).replace("Z", ".000000Z")
        try:
            await self._client.merge_patch(f"{LEASES}/{name}", {"spec": {"renewTime": now}})
        except ClusterRejected as error:
            if error.status != 404:
                raise
            spec = {
                "holderIdentity": name,
                "leaseDurationSeconds": LEASE_DURATION_SECONDS,
                "renewTime": now,
            }
            body = {"metadata": {"name": name}, "spec": spec}
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **body}
            await self._client.request("POST", LEASES, body=lease)
