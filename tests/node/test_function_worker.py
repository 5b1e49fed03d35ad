"""A function on real nodes, for the core set: its workers are pods with a sidecar.

`test_functions.py` has the platform as `deploy/` installs it, and everything that it may reach.
"""

from pathlib import Path

import pytest

from tests.node.builds import all_built
from tests.node.caller import Caller
from tests.node.cluster import NodeCluster
from tests.node.processes import QueuePlatform, images_of_the_nodes, stopped_afterwards
from tests.node.shipped import ECHO, write_images

pytestmark = [pytest.mark.node, pytest.mark.core, pytest.mark.timeout(300)]

INVOCATIONS = 10


def test_a_function_on_the_nodes_responds(nodes: NodeCluster, tmp_path: Path) -> None:
    busybox = all_built(has_policies=False).packages / "usr/bin/busybox"
    archives = write_images(busybox, tmp_path / "images", [ECHO])
    for node in nodes.nodes:
        node.import_images(archives)
    tmp_path.chmod(0o755)
    with images_of_the_nodes():
        platform = QueuePlatform(tmp_path, nodes.kubeconfig)
    with stopped_afterwards(platform), platform.reachable_queue():
        platform.start_all()
        caller = Caller(f"127.0.0.1:{platform.port}", platform.token("default"))
        caller.seed(1)
        caller.create("echo", {"image": ECHO, "maxWorkers": 1})

        ended = caller.invoke("echo", [f"payload {number}" for number in range(INVOCATIONS)])

    assert [(one["state"], one["result"]["body"]) for one in ended] == [
        ("Succeeded", f"payload {number}") for number in range(INVOCATIONS)
    ]
