"""Runs a cluster of real nodes for a person; `python -m tests.node up` creates its namespaces."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

from tests.cluster.controlplane.launcher import stop_when_asked
from tests.cluster.controlplane.programs import CannotStart, say
from tests.node import builds, relay
from tests.node.cluster import NodeCluster
from tests.node.images import APP, BUSYBOX, PLATFORM_SETTINGS

CHECK_SECONDS = 0.5
DEFAULT_NODES = 2


def main(descriptor: str, count: str = str(DEFAULT_NODES)) -> int:
    """Run the cluster until Ctrl-C, SIGTERM or the end of a program.

    Args:
        descriptor: the listening socket in the network of the machine.
        count: the number of nodes.
    """
    signal.signal(signal.SIGTERM, stop_when_asked)
    try:
        with NodeCluster(builds.all_built(), int(count)) as cluster:
            config = json.loads(cluster.kubeconfig.read_text("utf-8"))
            server = config["clusters"][0]["cluster"]
            target = urlsplit(server["server"])
            with relay.relaying(int(descriptor), target.hostname or "", target.port or 0) as port:
                server["server"] = f"https://{relay.HOST}:{port}"
                _serve(cluster, json.dumps(config, indent=1))
    except CannotStart as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


def platform_command() -> str:
    """Return the command that runs a platform with the cluster of `KUBECONFIG`."""
    settings = " ".join(f"{name}={image}" for name, image in PLATFORM_SETTINGS.items())
    return f"KUBE_MODE=required {settings} make run"


def _serve(cluster: NodeCluster, config: str) -> None:
    """Print how to use the cluster, and wait until a program ends."""
    kubeconfig = cluster.folder / "kubeconfig"
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(config, "utf-8")
    inside = _script(cluster.folder / "in", f"--target {os.getpid()} --net")
    lines = [
        f"ready; use it with: export KUBECONFIG={kubeconfig}   (Ctrl-C stops it)",
        "  kubectl get nodes",
        f"  {platform_command()}",
        f"  {inside} curl http://{cluster.registry}/v2/",
    ]
    for node in cluster.nodes:
        enter = f"--target {node.process} --all --wd=/"
        script = _script(cluster.folder / f"in-{node.name}", enter)
        lines.append(f"  {script} ctr -n k8s.io containers ls")
    say("\n".join([*lines, f"  images: {APP}, {BUSYBOX}, {cluster.registry}/app:1 (registry)"]))
    sys.stdout.write(f"{kubeconfig}\n")
    sys.stdout.flush()
    while True:
        time.sleep(CHECK_SECONDS)
        cluster.check_alive()


def _script(path: Path, arguments: str) -> Path:
    """Write a script that runs a command in namespaces."""
    path.write_text(f'#!/bin/sh\nexec nsenter {arguments} "$@"\n')
    path.chmod(0o755)
    return path


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
