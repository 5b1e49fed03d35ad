"""Runs a cluster of real nodes for a person; `python -m tests.node up` creates its namespaces."""

import os
import shlex
import signal
import sys
import time
from pathlib import Path

from tests.cluster.controlplane.launcher import stop_when_asked
from tests.cluster.controlplane.programs import CannotStart, say
from tests.node import builds
from tests.node.cluster import NodeCluster

CHECK_SECONDS = 0.5
DEFAULT_NODES = 2


def main(arguments: list[str]) -> int:
    """Run the cluster until Ctrl-C, SIGTERM or the end of a program."""
    signal.signal(signal.SIGTERM, stop_when_asked)
    try:
        with NodeCluster(
            builds.all_built(), int(arguments[0]) if arguments else DEFAULT_NODES
        ) as cluster:
            sys.stdout.write(f"{cluster.kubeconfig}\n")
            sys.stdout.flush()
            say(_instructions(cluster))
            while True:
                time.sleep(CHECK_SECONDS)
                cluster.check_alive()
    except CannotStart as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        return 0


def _instructions(cluster: NodeCluster) -> str:
    """Write a script for each place in which a person runs commands; return how to use them."""
    environment = f"env KUBECONFIG={shlex.quote(str(cluster.kubeconfig))}"
    inside = _script(cluster.folder / "in", f"--target {os.getpid()} --net {environment}")
    lines = [
        "ready; the cluster has its own network, so commands run in it (Ctrl-C stops it):",
        f"  {inside} kubectl get nodes",
    ]
    for node in cluster.nodes:
        enter = f"--target {node.process} --all --wd=/"
        script = _script(cluster.folder / f"in-{node.name}", enter)
        lines.append(f"  {script} ctr -n k8s.io containers ls")
    return "\n".join([*lines, f"  images of its registry: {cluster.registry}/app:1"])


def _script(path: Path, arguments: str) -> Path:
    path.write_text(f'#!/bin/sh\nexec nsenter {arguments} "$@"\n')
    path.chmod(0o755)
    return path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
