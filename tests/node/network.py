"""The network of the nodes: a bridge in the network namespace of this process, and routes."""

import os
import subprocess
from pathlib import Path

ADDRESS = "10.77.0.1"
"""The address of this process in the network of the nodes."""
PREFIX_LENGTH = 24
BRIDGE = "nodes"
POD_NETWORK = "10.244.0.0/16"
NAMESPACE_VARIABLE = "TEST_NODE_NETWORK"
"""Names the network namespace that `python -m tests.node` created for nodes."""
BRIDGE_FILTER = Path("/proc/sys/net/bridge")


def node_address(number: int) -> str:
    """Return the address of a node."""
    return f"10.77.0.{10 + number}"


def pod_network(number: int) -> str:
    """Return the network of the pods of a node."""
    return f"10.244.{number}.0/24"


def is_isolated() -> bool:
    """Return whether this process is in a network namespace that was created for nodes."""
    return os.environ.get(NAMESPACE_VARIABLE) == str(Path("/proc/self/ns/net").readlink())


def create() -> None:
    """Create the bridge, in this process's network namespace."""
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "link", "add", BRIDGE, "type", "bridge")
    _run("ip", "address", "add", f"{ADDRESS}/{PREFIX_LENGTH}", "dev", BRIDGE)
    _run("ip", "link", "set", BRIDGE, "up")
    _run("sysctl", "-qw", "net.ipv4.ip_forward=1")
    if not BRIDGE_FILTER.exists():
        # Without it no policy applies between pods of one node. A kernel may have it built in.
        subprocess.run(["modprobe", "br_netfilter"], check=False, stderr=subprocess.DEVNULL)


def connect(number: int, process: int, services: str) -> None:
    """Connect the network namespace of a process, as a node's.

    This process reaches Services (`services` is their network) through the first node.
    """
    inside = ("nsenter", "--target", str(process), "--net")
    address, port = node_address(number), f"node-{number}"
    peer = ("peer", "name", "eth0", "netns", str(process))
    _run("ip", "link", "add", port, "type", "veth", *peer)
    _run("ip", "link", "set", port, "master", BRIDGE, "up")
    _run(*inside, "ip", "link", "set", "lo", "up")
    _run(*inside, "ip", "address", "add", f"{address}/{PREFIX_LENGTH}", "dev", "eth0")
    _run(*inside, "ip", "link", "set", "eth0", "up")
    _run(*inside, "ip", "route", "add", "default", "via", ADDRESS)
    _run(*inside, "sysctl", "-qw", "net.ipv4.ip_forward=1")
    _run("ip", "route", "add", pod_network(number), "via", address)
    if number == 1:
        _run("ip", "route", "add", services, "via", address)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)
